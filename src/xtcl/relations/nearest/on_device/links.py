"""The links of a graph on the device."""

from __future__ import annotations

from typing import NamedTuple

import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.sparse import is_among, row_entries, to_device
from xtcl.relations.view import TrainingView


class Links(NamedTuple):
    """A sparse matrix in CSR form, columns ascending within a row."""

    start: Tensor  # int64 [V + 1]
    end: Tensor  # int64 [E]
    weight: Tensor  # float32 [E]

    @classmethod
    def of(cls, matrix: sp.csr_array, device: torch.device) -> Links:
        """A SciPy matrix on the device."""
        links = to_device(matrix, device)
        return cls(links.crow_indices().long(), links.col_indices().long(), links.values())

    @classmethod
    def among(cls, view: TrainingView) -> Links:
        """The adjacency of a view, once for all searches."""
        return view.once("links on the device", lambda: cls.of(view.adjacency, view.device))

    @property
    def num_nodes(self) -> int:
        """V."""
        return len(self.start) - 1

    @property
    def degree(self) -> Tensor:
        """Entries of every row, int64 [V]."""
        return self.start.diff()

    def steps(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """All links of `nodes`, one node after the other: the place of the node, the other end."""
        row, entry = row_entries(self.start, nodes)
        return row, self.end[entry]

    def hold(self, nodes: Tensor, row: Tensor, partner: Tensor) -> Tensor:
        """Which pairs (nodes[row], partner) are links: bool [m]. Cost: O(m log n) for n links."""
        place, end = self.steps(nodes)
        return is_among(row * self.num_nodes + partner, place * self.num_nodes + end)
