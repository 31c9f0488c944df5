r"""The links that one layer of an encoder needs for some of the nodes.

With full-graph degrees d, the row of the normalised adjacency that belongs to a target u is

.. math:: (\hat A h)_u = \frac{h_u}{d_u + 1} + \frac{d_u}{k_u} \sum_{v \in S_u}
          \frac{h_v}{\sqrt{(d_u + 1)(d_v + 1)}}

over the :math:`k_u` sampled neighbours :math:`S_u`. The factor :math:`d_u / k_u` makes it right on
average (Chen, Zhu and Song, "Stochastic Training of Graph Convolutional Networks with Variance
Reduction", ICML 2018); with all neighbours it is 1.

Cost of a product with rows [n, h] over m links: O(m h), and O(m log m) for its gradient's matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xtcl.learning.sparse_product import sparse_product
from xtcl.relations.sparse import quiet_sparse


@dataclass(frozen=True)
class Block:
    """Links from the sources `nodes` to the targets, which are the first `count` of the sources."""

    nodes: Tensor
    """int64 [n], different nodes of the graph."""
    count: int
    edge_index: Tensor
    """int64 [2, m], places in `nodes` of source and target, in the order of the targets."""
    degree: Tensor
    """int64 [n], of the sources in the whole graph."""

    def ends(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """The rows of the sources and of the targets, as PyG's layers want them."""
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
            # Only a gradient reads the transpose.
            transposed = links.t().to_sparse_csr() if h.requires_grad else links
        own = root[: self.count].square()[:, None]
        return torch.addcmul(sparse_product(links, transposed, h), own, h[: self.count])
