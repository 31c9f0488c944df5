"""Which pairs may be positives: all but the excluded ones, or only those near by links."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.rows import NO_NODE, all_nodes
from xtcl.relations.sparse import CSRGraph, SparseRows


class PairFilter(NamedTuple):
    """Pairs that may not be positives, and the only ones that may."""

    exclude: CSRGraph | None
    within: CSRGraph | None

    @classmethod
    def from_matrices(
        cls, exclude: sp.csr_array | None, within: sp.csr_array | None, device: torch.device
    ) -> PairFilter:
        """From sparse 0/1 matrices [V, V]; None: no pair is excluded, none is too far."""
        return cls(
            *(None if m is None else CSRGraph.from_scipy(m, device) for m in (exclude, within))
        )

    def allows(self, nodes: Tensor, row: Tensor, partner: Tensor) -> Tensor | None:
        """Which pairs (nodes[row], partner) may be positives, bool [m]; None for all of them."""
        allowed = None
        if self.exclude is not None:
            allowed = ~self.exclude.has_edges(nodes, row, partner)
        if self.within is not None:
            near = self.within.has_edges(nodes, row, partner)
            allowed = near if allowed is None else allowed & near
        return allowed

    def of_table(self, table: np.ndarray) -> np.ndarray:
        """The table [V, B] without positives that are not allowed."""
        row, column = (torch.from_numpy(part) for part in np.nonzero(table != NO_NODE))
        partner = torch.from_numpy(table)[row, column]
        device = next((part.start.device for part in self if part is not None), row.device)
        allowed = self.allows(all_nodes(len(table)).to(device), row.to(device), partner.to(device))
        if allowed is None:
            return table
        kept = table.copy()
        refused = ~allowed.cpu()
        kept[row[refused].numpy(), column[refused].numpy()] = NO_NODE
        return kept

    def of_rows(self, rows: SparseRows, nodes: Tensor) -> SparseRows:
        """The rows of `nodes` without pairs that are not allowed."""
        allowed = self.allows(nodes, rows.row, rows.node)
        return rows if allowed is None else rows.where(allowed)
