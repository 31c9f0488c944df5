"""What a search for the nearest gives: for a block of nodes, a short list each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


class NearestRows(NamedTuple):
    """Lists of nodes in CSR form: that of the i-th node asked for is start[i] : start[i + 1]."""

    start: Tensor  # int64 [b + 1]
    nodes: Tensor  # int64 [m], ascending within a row
    similarities: Tensor  # float32 [m]

    @classmethod
    def of(cls, lists: sp.csr_array, device: torch.device) -> NearestRows:
        """From a sparse matrix [b, V] with sorted indices."""
        return cls(
            torch.from_numpy(lists.indptr.astype(np.int64)).to(device),
            torch.from_numpy(lists.indices.astype(np.int64)).to(device),
            torch.from_numpy(lists.data.astype(np.float32)).to(device),
        )

    @classmethod
    def joined(cls, parts: Sequence[NearestRows]) -> NearestRows:
        """One part after the other, of one at least."""
        if len(parts) == 1:
            return parts[0]
        length = torch.cat([part.start.diff() for part in parts])
        return cls(
            torch.nn.functional.pad(length.cumsum(0), (1, 0)),
            torch.cat([part.nodes for part in parts]),
            torch.cat([part.similarities for part in parts]),
        )

    @property
    def rows(self) -> Tensor:
        """The place, among the nodes asked for, of the one whose list an entry is in: int64 [m]."""
        places = torch.arange(len(self.start) - 1, device=self.start.device)
        return torch.repeat_interleave(places, self.start.diff(), output_size=len(self.nodes))

    def matrix(self, num_nodes: int) -> sp.csr_array:
        """As a sparse matrix [b, V]."""
        start, nodes, similarities = (part.cpu().numpy() for part in self)
        return sp.csr_array((similarities, nodes, start), shape=(len(start) - 1, num_nodes))


Nearest = Callable[[Tensor], NearestRows]
"""Takes node indices [b], gives the above set of each, cut to the cap."""


def recall(found: NearestRows, expected: NearestRows, num_nodes: int) -> float:
    """Share of the expected pairs that were found; 1 where none was expected."""
    wanted = expected.matrix(num_nodes)
    hits = found.matrix(num_nodes).astype(bool).multiply(wanted.astype(bool)).nnz
    return hits / wanted.nnz if wanted.nnz else 1.0
