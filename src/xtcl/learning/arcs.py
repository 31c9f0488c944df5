"""The links of a graph as lists of neighbours, one after the other (CSR)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Arcs(NamedTuple):
    """Both directions of every link, in the order of their first end, without loops."""

    row: Tensor
    """int64 [m], the first ends."""
    column: Tensor
    """int64 [m], the neighbours of node u at places start[u] to start[u + 1]."""
    degree: Tensor
    """int64 [V]"""
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
