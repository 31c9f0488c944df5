"""The graph convolutional network, trained on the task itself."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from xtcl.baselines.supervised import Supervised, SupervisedSettings
from xtcl.learning.encoders.propagation import Propagation


class TwoLayerGCN(nn.Module):
    r""":math:`\hat A \, \text{ReLU}(\hat A X W_0) \, W_1`, with dropout before each product.

    Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks", ICLR 2017:
    no biases, Glorot's initial weights. Cost of a pass: O(V D h + E h).
    """

    def __init__(self, in_features: int, hidden: int, width: int, dropout: float) -> None:
        super().__init__()
        self.propagation = Propagation(1)
        self.first = nn.Linear(in_features, hidden, bias=False)
        self.second = nn.Linear(hidden, width, bias=False)
        for linear in (self.first, self.second):
            nn.init.xavier_uniform_(linear.weight)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Class scores or embeddings, [V, width]."""
        h = self.first(F.dropout(x, self.dropout, self.training))
        h = F.relu(self.propagation(h, edge_index))
        h = self.second(F.dropout(h, self.dropout, self.training))
        return self.propagation(h, edge_index)


class GCN(Supervised):
    """TODO."""

    name: ClassVar[str] = "gcn"
    title: ClassVar[str] = "GCN"
    settings: ClassVar[dict[str, SupervisedSettings]] = {
        "nodes": SupervisedSettings(
            hidden=64, dropout=0.8, learning_rate=0.01, weight_decay=1e-3, epochs=200
        ),
        "links": SupervisedSettings(
            hidden=256, dropout=0.5, learning_rate=0.01, weight_decay=0.0, epochs=200, width=128
        ),
    }

    def network(self, in_features: int, width: int, settings: SupervisedSettings) -> nn.Module:
        """Two layers."""
        return TwoLayerGCN(in_features, settings.hidden, width, settings.dropout)
