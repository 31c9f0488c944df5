"""Labels spread over the links, each node with its own trust in every hop, and what teaches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from xtcl.learning.encoders.propagation import Propagation

Weights = tuple[Tensor, ...]
"""All weights of a network."""
OfWeights = Callable[[Weights], Tensor]
"""What a network gives with such weights: log class probabilities [V, C], or a loss."""

FINITE_STEP = 0.1


def labels_per_hop(start: Tensor, edge_index: Tensor, hops: int) -> Tensor:
    r""":math:`Y_k = \hat A^k Y_0` for k = 1 to K, [V, K, C]. Cost O(K E C)."""
    once = Propagation(1)
    spread = [once(start, edge_index)]
    for _ in range(hops - 1):
        spread.append(once(spread[-1], edge_index))
    return torch.stack(spread, dim=1)


class MetaPropagator(nn.Module):
    r"""Pseudo labels :math:`\tilde y_i = Y_0[i] + \sum_k a_{ik} Y_k[i]`.

    The trust of node i in hop k is :math:`a_{ik} = \text{softmax}_k(v^\top \text{ReLU}(W Y_k[i] +
    b))`. Rows do not sum to 1: a node far from all labels has little to say. Cost O(V K C^2).
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        # W and v begin uniform within 1 / sqrt(C), as published.
        self.first = nn.Linear(num_classes, num_classes)
        self.second = nn.Linear(num_classes, 1, bias=False)
        # With few classes, negative biases would put all units to sleep, and nothing wakes them.
        nn.init.zeros_(self.first.bias)

    def forward(self, start: Tensor, spread: Tensor) -> Tensor:
        """From the known labels `start` [V, C] and those of each hop, `spread` [V, K, C]."""
        trust: Tensor = self.second(torch.relu(self.first(spread))).softmax(dim=1)
        return start + (trust * spread).sum(dim=1)


@dataclass(frozen=True)
class PseudoLoss:
    r"""What the network is trained by.

    :math:`-\frac{s}{V C} \sum_i \sum_c \tilde y_{ic} \log p_{ic} + \frac{\lambda}{2} \|W_1\|^2`,
    with the first of all weights as :math:`W_1`.
    """

    scale: float
    decay: float

    def fit(self, pseudo: Tensor, log_chances: Tensor) -> Tensor:
        """The first term, which is linear in both."""
        return -self.scale * (pseudo * log_chances).sum() / log_chances.numel()

    def __call__(self, pseudo: Tensor, log_chances: Tensor, weights: Weights) -> Tensor:
        """Both terms."""
        return self.fit(pseudo, log_chances) + self.decay / 2 * weights[0].square().sum()


def gold_direction(
    weights: Weights, gradient: Weights, rate: float, gold_loss: OfWeights
) -> Weights:
    r""":math:`d = \nabla_{\theta'} L_\text{gold}(\theta')` at :math:`\theta' = \theta - \eta g`.

    The step is plain gradient descent and virtual: no optimiser hears of it.
    """
    moved = tuple(
        (weight - rate * slope).detach().requires_grad_()
        for weight, slope in zip(weights, gradient, strict=True)
    )
    return torch.autograd.grad(gold_loss(moved), moved)


def meta_objective(
    log_chances: OfWeights,
    weights: Weights,
    direction: Weights,
    pseudo: Tensor,
    loss: PseudoLoss,
    rate: float,
) -> Tensor:
    r"""A number whose gradient for the propagator is that of the gold loss after a virtual step.

    With :math:`\theta' = \theta - \eta \nabla_\theta L(\theta, \phi)` and d as above, the chain
    rule gives :math:`-\eta \, \nabla_\phi (d^\top \nabla_\theta L)`. The product with d is a
    central difference, as in Liu, Simonyan and Yang, "DARTS", ICLR 2019:
    :math:`-\eta \, [\nabla_\phi L(\theta + \epsilon d, \phi) - \nabla_\phi L(\theta - \epsilon d,
    \phi)] / 2 \epsilon`, where :math:`\epsilon = 0.1 / \|d\|`. L is linear in the log
    probabilities, so one way back through the propagator does for both sides.
    """
    length = torch.stack([part.square().sum() for part in direction]).sum().sqrt()
    step = FINITE_STEP / length.clamp(min=1e-12)  # nothing to learn: no direction, no gradient

    def aside(size: Tensor) -> Tensor:
        pairs = zip(weights, direction, strict=True)
        return log_chances(tuple(weight + size * part for weight, part in pairs))

    with torch.no_grad():
        change = (aside(step) - aside(-step)) / (2 * step)
    return -rate * loss.fit(pseudo, change)
