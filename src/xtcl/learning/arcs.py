"""The links of a graph as lists of neighbours, one after the other (CSR)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Arcs(NamedTuple):
    """Both directions of every link, in the order of their first end.

    A loop carries nothing: it stands where a link was left out (`without`).
    """

    row: Tensor
    """int64 [m], the first ends."""
    column: Tensor
    """int64 [m], the neighbours of node u at places start[u] to start[u + 1]."""
    degree: Tensor
    """int64 [V], without loops"""
    start: Tensor
    """int64 [V + 1]"""

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int) -> Arcs:
        """Links in the order of their rows, as graphs have them, need not be sorted: O(E)."""
        row, column = edge_index
        if not ((row[1:] >= row[:-1]).all() & (row != column).all()):
            row, column = edge_index[:, row != column]
            order = row.argsort(stable=True)
            row, column = row[order], column[order]
        degree = torch.bincount(row, minlength=num_nodes)
        start = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
        return cls(row, column, degree, start)

    def without(self, left_out: Tensor) -> Arcs:
        """The same places, some of them `left_out`, bool [m]: nothing changes its shape."""
        stay = torch.nn.functional.pad((~left_out).cumsum(0), (1, 0))[self.start]
        return Arcs(self.row, self.column.where(~left_out, self.row), stay.diff(), self.start)


EdgeIndex = Tensor | Arcs
"""Links of a graph as encoders get them: [2, n], or arcs where shapes must stay."""


def edge_index_of(links: EdgeIndex) -> Tensor:
    """Both directions of the links, int64 [2, n]."""
    if isinstance(links, Arcs):
        return torch.stack([links.row, links.column])[:, links.row != links.column]
    return links


def identity_of(links: EdgeIndex) -> Tensor:
    """The tensor that no other links have."""
    return links.column if isinstance(links, Arcs) else links
