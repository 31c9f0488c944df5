"""Repeated smoothing with the normalised adjacency."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from xtcl.errors import UsageError
from xtcl.learning.arcs import Arcs, EdgeIndex, identity_of
from xtcl.learning.encoders.remembered import Remembered
from xtcl.learning.sparse_product import sparse_product
from xtcl.relations.sparse import quiet_sparse


class Propagation(nn.Module):
    r"""k times :math:`h \leftarrow (1 - \alpha) \hat A h + \alpha x`, beginning with h = x.

    :math:`\hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}`. Without the way back to x
    (:math:`\alpha` = 0, `restart`) it is :math:`\hat A^k x`; with it, personalised PageRank:
    Gasteiger, Bojchevski and Günnemann, "Predict then Propagate", ICLR 2019. The links become a
    sparse matrix, so that no message of an edge is ever stored: O(E + V h) memory, O(k E h) time.
    Every link is there in both directions, so the matrix is its own transpose, and a gradient costs
    no more than a pass; PyG's APPNP transposes anew each time.
    """

    def __init__(self, hops: int, restart: float = 0.0, like: Propagation | None = None) -> None:
        """`like` is smoothing over the same links, whose matrix is then made once for both."""
        super().__init__()
        if hops < 0:
            raise UsageError(f"hops={hops} must be at least 0.")
        if not 0 <= restart < 1:
            raise UsageError(f"restart={restart} must be in [0, 1).")
        self.hops = hops
        self.restart = restart
        self._matrix: Remembered[_Smoothing] = Remembered() if like is None else like._matrix

    def forward(self, x: Tensor, links: EdgeIndex) -> Tensor:
        """Smooth `x` over the links, which are there in both directions."""
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
    r""":math:`\hat A` as the part of the links and the diagonal, which the loops make."""

    links: Tensor
    """CSR [V, V], symmetric."""
    diagonal: Tensor
    """[V, 1]"""

    @classmethod
    def over(cls, links: EdgeIndex, num_nodes: int, dtype: torch.dtype) -> _Smoothing:
        """From links in both directions: O(E), where they are in the order of their rows."""
        arcs = links if isinstance(links, Arcs) else Arcs.of(links, num_nodes)
        row, column, degree, start = arcs
        root = (degree + 1).to(dtype).rsqrt()
        weight = (root[row] * root[column]).masked_fill_(row == column, 0.0)
        with quiet_sparse():
            # Where links were left out columns repeat, which products do not mind and checks would.
            matrix = torch.sparse_csr_tensor(
                start, column, weight, size=(num_nodes, num_nodes), check_invariants=False
            )
        return cls(matrix, root.square()[:, None])

    def once(self, h: Tensor) -> Tensor:
        """One step."""
        return torch.addcmul(sparse_product(self.links, self.links, h), self.diagonal, h)
