"""A graph that loses some of its links in every step."""

from __future__ import annotations

import torch
from torch import Tensor

from xtcl.relations.sparse import quiet_sparse


class ThinnedGraph:
    r"""The normalised adjacency of a graph without some of its links, which are drawn each time.

    :math:`D^{-1/2} (A + I) D^{-1/2}`, D the sums of the rows of A + I. The pattern of the matrix
    stays, lost links have the value 0: nothing needs to be sorted again. Cost O(E).
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        """`edge_index` [2, n] holds each arc once and no loops."""
        nodes = torch.arange(num_nodes, device=edge_index.device)
        arcs = torch.cat([edge_index, nodes.expand(2, -1)], dim=1)
        self.row, self.column = arcs[:, (arcs[0] * num_nodes + arcs[1]).argsort()]
        self.starts = torch.cat([nodes.new_zeros(1), torch.bincount(self.row).cumsum(0)])
        self.loop = self.row == self.column
        ends = torch.stack([self.row, self.column]).sort(dim=0).values
        keys = ends[0] * num_nodes + ends[1]
        # Both directions of a link have one number, and so one fate.
        self.link = torch.searchsorted(keys.sort().values, keys)

    def without(self, share: float, generator: torch.Generator) -> Tensor:
        """The matrix (CSR) of the graph without about this share of its links."""
        chance = torch.rand(len(self.link), generator=generator, device=self.link.device)
        return self._matrix(((chance[self.link] >= share) | self.loop).float())

    def whole(self) -> Tensor:
        """The matrix (CSR) of the whole graph."""
        return self._matrix(torch.ones(len(self.link), device=self.link.device))

    def _matrix(self, kept: Tensor) -> Tensor:
        num_nodes = len(self.starts) - 1
        # Sums of whole numbers are exact in any order.
        root = kept.new_zeros(num_nodes).index_add_(0, self.row, kept).rsqrt()
        values = root[self.row] * kept * root[self.column]
        with quiet_sparse():
            return torch.sparse_csr_tensor(
                self.starts, self.column, values, size=(num_nodes, num_nodes)
            )
