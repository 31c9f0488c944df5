"""The supervised contrastive loss: positives of the same class, among labelled nodes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from xtcl.baselines.contrastive import Contrastive
from xtcl.progress import Progress
from xtcl.sampling.scored import NOBODY
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.training_side import TrainingSide


class SCL(Contrastive):
    r"""XTCL with labels alone: draws together labelled nodes of the same class.

    .. math:: p_b \sim \mathcal U\{v \in V_L \setminus u \mid y_v = y_u\}, \qquad u \in V_L

    Definition 2 of Lin and Neville (2024), after Khosla and others, NeurIPS 2020. Only labelled
    nodes :math:`V_L` are anchors, and of those only nodes whose class has another; negatives are
    random nodes of the graph, labelled or not. Cost of the positives: O(V B).
    """

    name: ClassVar[str] = "scl"
    title: ClassVar[str] = "SCL"

    def positives(
        self,
        side: TrainingSide,
        recipe: Recipe,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> np.ndarray:
        """Labelled nodes of the same class."""
        return class_positives(side.labels, recipe.positives, seed=seed)


def class_positives(labels: np.ndarray, number: int, *, seed: int) -> np.ndarray:
    """A table [V, number] of random other nodes with the same label.

    -1 for a node without a label, or alone with it.
    """
    rng = np.random.default_rng(seed)
    table = np.full((len(labels), number), NOBODY, dtype=np.int64)
    for label in np.unique(labels[labels >= 0]):
        members = np.flatnonzero(labels == label)
        if len(members) > 1:
            place = rng.integers(len(members) - 1, size=(len(members), number))
            place += place >= np.arange(len(members))[:, None]  # steps over the node itself
            table[members] = members[place]
    return table
