"""Node classification: alike means of the same class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from xtcl.learning.positive_source import PositiveSource
from xtcl.relations.view import TrainingView
from xtcl.sampling.crossfit import label_folds
from xtcl.sampling.fold import Fold
from xtcl.tasks.answers import NodeAnswer
from xtcl.tasks.logistic_head import LogisticHead, fit_logistic
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.task import Embed, Task
from xtcl.tasks.training_side import TrainingSide


class NodeClassification(Task):
    """I_t(u, v) = 1 where y_u = y_v; logistic regression on the embedding; accuracy."""

    name: ClassVar[str] = "nodes"
    metric: ClassVar[str] = "accuracy"

    def recipe(self, encoder: str) -> Recipe:
        """One layer: linear over twice smoothed attributes, or attention."""
        return Recipe(encoder_options={"width": 1024} if encoder in ("gcn", "gat") else {})

    def folds(self, view: TrainingView, folds: int, rng: np.random.Generator) -> list[Fold]:
        """All pairs of labelled nodes."""
        labels = view.labels

        def same_class(u: np.ndarray, v: np.ndarray) -> np.ndarray:
            return np.asarray(labels[u][:, None] == labels[v])

        return label_folds(view, same_class, folds, rng)

    def sources(
        self, view: TrainingView, positives: np.ndarray, recipe: Recipe
    ) -> list[PositiveSource]:
        """The sampler's best candidates."""
        return [PositiveSource.from_table(positives, recipe.draws)]

    def fit_head(
        self,
        side: TrainingSide,
        embedding: np.ndarray,
        embed: Embed,
        seed: int,
        device: torch.device,
    ) -> LogisticHead:
        """Logistic regression, its strength chosen by cross-validation on the training labels."""
        known = side.labelled
        return fit_logistic(embedding[known], side.labels[known], seed=seed, device=device)

    def answer(self, head: LogisticHead, embedding: np.ndarray, num_classes: int) -> NodeAnswer:
        """Class probabilities."""
        return NodeAnswer(head.predict_proba(embedding, num_classes))
