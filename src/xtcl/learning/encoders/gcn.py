"""The graph convolutional encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from xtcl.errors import UsageError
from xtcl.learning.encoders.propagation import Propagation
from xtcl.learning.encoders.remembered import Remembered
from xtcl.learning.unit_rows import unit_rows


class GCNEncoder(nn.Module):
    r"""Graph convolutions, by default one linear layer over attributes smoothed twice.

    .. math:: Z = \text{norm}(\hat A^k X) W \qquad \text{one layer, the default}

    .. math:: H_{l+1} = \hat A^k \, \text{PReLU}(H_l) \, W_l \qquad \text{further layers}

    `layers=2, hops=1` is the two-layer network of Kipf and Welling. On small citation graphs the
    linear form generalises better from few labels (Wu and others, "Simplifying Graph Convolutional
    Networks", ICML 2019), and the smoothed attributes need to be computed only once.

    Cost of a pass: O(V D h) with the smoothed attributes kept, O(k E D) to compute them.
    """

    def __init__(
        self,
        in_features: int,
        width: int = 512,
        *,
        layers: int = 1,
        hops: int = 2,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if layers < 1 or hops < 0:
            raise UsageError(f"layers={layers} must be at least 1 and hops={hops} at least 0.")
        self.propagation = Propagation(hops)
        self.linears = nn.ModuleList(
            nn.Linear(in_features if layer == 0 else width, width, bias=layer > 0)
            for layer in range(layers)
        )
        self.activations = nn.ModuleList(nn.PReLU() for _ in range(layers - 1))
        self.dropout = dropout
        self._smoothed = Remembered()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Embeddings [V, width]."""
        smoothed = F.dropout(self._smooth(x, edge_index), self.dropout, self.training)
        h: Tensor = self.linears[0](smoothed)
        for activation, linear in zip(self.activations, self.linears[1:], strict=True):
            h = F.dropout(activation(h), self.dropout, self.training)
            h = linear(self.propagation(h, edge_index))
        return h

    def _smooth(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The smoothed rows, of unit length; computed again only when x or the links change.

        With x that wants a gradient the result belongs to one pass, and is computed in each.
        """

        def compute() -> Tensor:
            return unit_rows(self.propagation(x, edge_index))

        if x.requires_grad and torch.is_grad_enabled():
            return compute()
        with torch.no_grad():
            return self._smoothed.get(compute, (x, edge_index))
