r"""Positives weighted by their probability.

.. math:: \mathcal L(u) = -\frac {1} {\sum_b f_u(p_b)} \sum_b f_u(p_b) \log \frac{e^{s(u, p_b)}}
          {e^{s(u, p_b)} + \sum_k e^{s(u, n_k)}}
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xtcl.config import FitConfig, Similarity
from xtcl.lab.scripts.ablation_fit import fit_with_loss
from xtcl.nn.loss import contrastive_loss
from xtcl.sampling.positives import Positives
from xtcl.sampling.stumps import sigmoid
from xtcl.tasks.fit import FitOptions, FittedTask
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import TrainingData


@dataclass(frozen=True)
class ScoreWeightedLoss:
    """Equation 1 with the weight of a positive multiplied by its f_u(v)."""

    nodes: Tensor  # int64 [V, B], the positives of every node
    chances: Tensor  # float32 [V, B], their f; 0 in empty places

    @classmethod
    def of(cls, found: Positives, device: torch.device) -> ScoreWeightedLoss:
        """The loss for what a sampler found."""
        chances = torch.from_numpy(sigmoid(found.scores)).float()
        return cls(torch.from_numpy(found.nodes).to(device), chances.to(device))

    def chance(self, anchors: Tensor, positives: Tensor) -> Tensor:
        """The f of the drawn `positives` [n, d] of `anchors`."""
        drawn = positives[:, :, None] == self.nodes[anchors][:, None, :]
        return (drawn * self.chances[anchors][:, None, :]).sum(dim=2)

    def __call__(
        self,
        z: Tensor,
        positives: Tensor,
        negatives: Tensor,
        *,
        anchors: Tensor,
        weights: Tensor,
        similarity: Similarity,
        temperature: float,
    ) -> Tensor:
        """The loss of a step."""
        return contrastive_loss(
            z,
            positives,
            negatives,
            anchors=anchors,
            weights=weights * self.chance(anchors, positives),
            similarity=similarity,
            temperature=temperature,
        )


def fit_weighted(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions
) -> FittedTask:
    """A fit with this loss."""
    return fit_with_loss(
        lambda sampler, found: ScoreWeightedLoss.of(found, options.device),
        side,
        task,
        recipe,
        options,
    )
