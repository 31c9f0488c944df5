r"""Repeated smoothing :math:`\hat A^k X` with the normalised adjacency, on PyG's own layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import APPNP
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_torch_csr_tensor

from xtcl.learning.encoders.remembered import Remembered
from xtcl.relations.sparse import quiet_sparse


class Propagation(nn.Module):
    r"""x -> :math:`\hat A^k x`, :math:`\hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}`.

    It is APPNP without a way back (alpha = 0): Gasteiger, Bojchevski and Günnemann, "Predict then
    Propagate", ICLR 2019. The links become a sparse matrix, so that no message of an edge is ever
    stored: O(E + V h) memory, O(k E h) time.
    """

    def __init__(self, hops: int) -> None:
        super().__init__()
        self.hops = hops
        self.smooth = APPNP(K=hops, alpha=0.0, normalize=False)
        self._matrix = Remembered()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Smooth `x` over the links `edge_index`, which holds both directions of each."""
        if self.hops == 0:
            return x
        matrix = self._matrix.get(
            lambda: _normalised(edge_index, len(x), x.dtype), (edge_index,), (len(x), x.dtype)
        )
        smoothed: Tensor = self.smooth(x, matrix)
        return smoothed


def _normalised(edge_index: Tensor, num_nodes: int, dtype: torch.dtype) -> Tensor:
    links, weights = gcn_norm(edge_index, num_nodes=num_nodes, dtype=dtype)
    with quiet_sparse():
        matrix: Tensor = to_torch_csr_tensor(links, weights, size=(num_nodes, num_nodes))
    return matrix
