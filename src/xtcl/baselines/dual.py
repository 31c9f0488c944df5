"""The dual reading of DGCN: two channels, their loss and its settings."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from xtcl.baselines.ppmi import PPMISmoothing
from xtcl.learning.encoders.propagation import Propagation

WALKS = 100


@dataclass(frozen=True)
class DualSettings:
    """How the dual network learns classes, for a fixed number of epochs.

    `consistency` is the weight of the unsupervised term once it has grown for `ramp_up` epochs.
    `plain` is gradient descent, as published; otherwise Adam. There is no validation set to stop
    by, and the published training needs none.
    """

    learning_rate: float
    plain: bool = True
    hidden: int = 32
    dropout: float = 0.1
    epochs: int = 300
    consistency: float = 15.0
    ramp_up: int = 120

    def weight(self, epoch: int) -> float:
        r"""Of the unsupervised term: :math:`15 \exp(-5 (1 - t / 120)^2)`, and 15 from then on."""
        return self.consistency * math.exp(-5 * (1 - min(epoch / self.ramp_up, 1)) ** 2)


PUBLISHED = {
    "cora": DualSettings(learning_rate=1.0),
    "citeseer": DualSettings(learning_rate=1.0),
    "pubmed": DualSettings(learning_rate=2.0),
}
"""By the name of the graph; the rates are ours, see `DGCN`."""
OTHER = DualSettings(learning_rate=0.02, plain=False, hidden=64)
"""Of graphs for which nothing is published."""


class TwoLayerDualGCN(nn.Module):
    r"""Two channels with the same weights: :math:`S \, \text{ReLU}(S X W_0) \, W_1`.

    S is the normalised adjacency in the one and the normalised PPMI matrix in the other; dropout
    before each product. Zhuang and Ma, "Dual Graph Convolutional Networks for Graph-Based
    Semi-Supervised Classification", WWW 2018: no biases, Glorot's initial weights. Cost of a pass:
    O(V D h + E h), since walks of one step meet neighbours only.
    """

    def __init__(self, in_features: int, hidden: int, width: int, dropout: float) -> None:
        super().__init__()
        self.near, self.far = Propagation(1), PPMISmoothing(WALKS)
        self.first = nn.Linear(in_features, hidden, bias=False)
        self.second = nn.Linear(hidden, width, bias=False)
        for linear in (self.first, self.second):
            nn.init.xavier_uniform_(linear.weight)
        self.dropout = dropout

    def channels(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        """What comes of the adjacency, and of the PPMI matrix: [V, width] each."""
        h = self.first(F.dropout(x, self.dropout, self.training))
        near, far = (
            smooth(self._second(F.relu(smooth(h, edge_index))), edge_index)
            for smooth in (self.near, self.far)
        )
        return near, far

    def _second(self, h: Tensor) -> Tensor:
        out: Tensor = self.second(F.dropout(h, self.dropout, self.training))
        return out

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The ensemble: the mean of both channels."""
        near, far = self.channels(x, edge_index)
        return (near + far) / 2


def dual_loss(
    near: Tensor, far: Tensor, labelled: Tensor, classes: Tensor, *, weight: float
) -> Tensor:
    r"""Mean of :math:`-\log p_u(y_u)` over labelled u, and of :math:`|p_u - q_u|^2` over all u.

    p and q are the class probabilities of the two channels, whose scores are `near` and `far`;
    the second mean has the `weight`. Cost O(V C).
    """
    supervised = F.cross_entropy(F.embedding(labelled, near), classes)
    apart = near.softmax(dim=1) - far.softmax(dim=1)
    return supervised + weight * apart.square().sum(dim=1).mean()
