"""Repeated smoothing with the normalised adjacency, on PyG's own layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import APPNP
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import to_torch_csr_tensor

from xtcl.errors import UsageError
from xtcl.learning.encoders.remembered import Remembered
from xtcl.relations.sparse import quiet_sparse


class Propagation(nn.Module):
    r"""k times :math:`h \leftarrow (1 - \alpha) \hat A h + \alpha x`, beginning with h = x.

    :math:`\hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}`. Without the way back to x
    (:math:`\alpha` = 0, `restart`) it is :math:`\hat A^k x`; with it, personalised PageRank:
    Gasteiger, Bojchevski and Günnemann, "Predict then Propagate", ICLR 2019. The links become a
    sparse matrix, so that no message of an edge is ever stored: O(E + V h) memory, O(k E h) time.
    """

    def __init__(self, hops: int, restart: float = 0.0) -> None:
        super().__init__()
        if hops < 0:
            raise UsageError(f"hops={hops} must be at least 0.")
        if not 0 <= restart < 1:
            raise UsageError(f"restart={restart} must be in [0, 1).")
        self.hops = hops
        self.smooth = APPNP(K=hops, alpha=restart, normalize=False)
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
