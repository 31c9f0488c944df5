"""Smoothing with the normalised adjacency, of a whole graph or of the blocks of a mini-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from xtcl.errors import UsageError
from xtcl.nn.functional import TensorCache, sparse_product
from xtcl.relations.sparse import CSRGraph, quiet_sparse


class Propagation(nn.Module):
    r"""k times :math:`h \leftarrow (1 - \alpha) \hat A h + \alpha x`, beginning with h = x.

    :math:`\hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}`. Without a restart
    (:math:`\alpha` = 0) it is :math:`\hat A^k x`; with it, personalised PageRank:
    Gasteiger, Bojchevski and Günnemann, "Predict then Propagate", ICLR 2019. The links become a
    sparse matrix, so that no message of an edge is ever stored: O(E + V h) memory, O(k E h) time.
    Every link is there in both directions, so the matrix is its own transpose, and a gradient costs
    no more than a pass. (PyG's APPNP transposes in every pass.)
    """

    def __init__(self, hops: int, restart: float = 0.0, like: Propagation | None = None) -> None:
        """`like` smooths over the same links, so that one matrix is computed for both."""
        super().__init__()
        if hops < 0:
            raise UsageError(f"hops={hops} must be at least 0.")
        if not 0 <= restart < 1:
            raise UsageError(f"restart={restart} must be in [0, 1).")
        self.hops = hops
        self.restart = restart
        self._matrix: TensorCache[_Smoothing] = TensorCache() if like is None else like._matrix

    def forward(self, x: Tensor, links: EdgeIndex) -> Tensor:
        """Smooth `x` over the links, given in both directions."""
        if self.hops == 0:
            return x
        smoothing = self._matrix.get(
            lambda: _Smoothing.over(links, len(x), x.dtype),
            (identity_of(links),),
            (len(x), x.dtype),
        )
        h = x
        for _ in range(self.hops):
            h = smoothing.once(h)
            if self.restart:
                h = h * (1 - self.restart) + self.restart * x
        return h


class _Smoothing(NamedTuple):
    r""":math:`\hat A` in two parts: the links, and the diagonal of the self-loops."""

    links: Tensor
    """CSR [V, V], symmetric."""
    diagonal: Tensor
    """[V, 1]"""

    @classmethod
    def over(cls, links: EdgeIndex, num_nodes: int, dtype: torch.dtype) -> _Smoothing:
        """From links in both directions: O(E), where they are in the order of their rows."""
        graph = links if isinstance(links, CSRGraph) else CSRGraph.from_edge_index(links, num_nodes)
        row, column = graph.row, graph.column
        root = (graph.degree + 1).to(dtype).rsqrt()
        weight = (root[row] * root[column]).masked_fill_(row == column, 0.0)
        with quiet_sparse():
            # Where links are left out, columns repeat. Products allow that, but the checks do not.
            matrix = torch.sparse_csr_tensor(
                graph.start, column, weight, size=(num_nodes, num_nodes), check_invariants=False
            )
        return cls(matrix, root.square()[:, None])

    def once(self, h: Tensor) -> Tensor:
        """One step of smoothing."""
        return torch.addcmul(sparse_product(self.links, self.links, h), self.diagonal, h)


EdgeIndex = Tensor | CSRGraph
"""The links that an encoder gets: [2, n], or a `CSRGraph` where shapes must not change."""


def edge_index_of(links: EdgeIndex) -> Tensor:
    """Both directions of the links, int64 [2, n]."""
    if isinstance(links, CSRGraph):
        return torch.stack([links.row, links.column])[:, links.row != links.column]
    return links


def identity_of(links: EdgeIndex) -> Tensor:
    """A tensor that identifies the links, for a `TensorCache`."""
    return links.column if isinstance(links, CSRGraph) else links


@dataclass(frozen=True)
class Block:
    r"""Links from the sources `nodes` to the targets, which are the first `count` of the sources.

    One layer of an encoder reads such a block in a mini-batch. With full-graph degrees d, the row
    of the normalised adjacency that belongs to a target u is estimated by

    .. math:: (\hat A h)_u = \frac{h_u}{d_u + 1} + \frac{d_u}{k_u} \sum_{v \in S_u}
              \frac{h_v}{\sqrt{(d_u + 1)(d_v + 1)}}

    over the :math:`k_u` sampled neighbours :math:`S_u`. The factor :math:`d_u / k_u` makes it
    unbiased (Chen, Zhu and Song, "Stochastic Training of Graph Convolutional Networks with Variance
    Reduction", ICML 2018); with all neighbours it is 1.

    Cost of a product with rows [n, h] over m links: O(m h), and O(m log m) for the matrix of its
    gradient.
    """

    nodes: Tensor
    """int64 [n], different nodes of the graph."""
    count: int
    edge_index: Tensor
    """int64 [2, m], places in `nodes` of source and target, in the order of the targets."""
    degree: Tensor
    """int64 [n], of the sources in the whole graph."""

    def ends(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of the sources and of the targets, as PyG's layers take them."""
        return h, h[: self.count]

    def smooth(self, h: Tensor) -> Tensor:
        """The targets' rows [count, h] of the normalised adjacency times `h` [n, h]."""
        source, target = self.edge_index
        sampled = torch.bincount(target, minlength=self.count)
        start = torch.cat([sampled.new_zeros(1), sampled.cumsum(0)])
        root = (self.degree + 1).to(h.dtype).rsqrt()
        values = root[source] * root[target]
        values = values * (self.degree[: self.count] / sampled).to(h.dtype)[target]
        with quiet_sparse():
            size = (self.count, len(self.nodes))
            links = torch.sparse_csr_tensor(start, source, values, size=size)
            # The transpose is for the gradient only.
            transposed = links.t().to_sparse_csr() if h.requires_grad else links
        own = root[: self.count].square()[:, None]
        return torch.addcmul(sparse_product(links, transposed, h), own, h[: self.count])
