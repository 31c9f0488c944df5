"""A custom task: a function decides which pairs are alike."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from xtcl.config import FitConfig, SamplerConfig
from xtcl.errors import UsageError
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import Fold, Indicator, label_folds
from xtcl.tasks.node_classification import NodeClassification, fixed_rules_recipe
from xtcl.tasks.results import FittedEmbedding, NodePredictions
from xtcl.tasks.task import Selected, Task
from xtcl.tasks.training_data import TrainingData


class CustomTask(NodeClassification):
    """I_t(u, v) is given by `alike`, for the nodes among which it is known.

    Args:
        alike: gets node indices u [b] and v [c] and returns bool [b, c].
        known: the nodes for which `alike` may be called: their numbers, or a mask of all nodes.

    Fitting gives embeddings, positives and relation weights; there is no head, so nothing is
    predicted. Labels, if the graph has any, serve the label relations as in node classification.

    """

    name: ClassVar[str] = "custom"
    metric: ClassVar[str] = "none"

    def __init__(self, alike: Indicator, known: np.ndarray) -> None:
        self.alike = alike
        nodes = np.asarray(known)
        nodes = np.flatnonzero(nodes) if nodes.dtype == bool else nodes
        self.known = np.unique(nodes.astype(np.int64))

    def recipe(self, encoder: str) -> FitConfig:
        """That of node classification in 2026-11, with all of the best candidates for positives.

        The threshold and the prior depend on how rare alike pairs are. There is no head, so hidden
        labels choose nothing, and down-weighting and self-training are off.
        """
        return replace(
            fixed_rules_recipe(encoder),
            sampler=SamplerConfig(),
            min_probability=0.0,
            downweight=1.0,
            self_training_threshold=1.0,
        )

    def named_recipe(self, name: str, encoder: str) -> FitConfig:
        """The one recipe, under the name of the fixed rules."""
        return Task.named_recipe(self, name, encoder)

    def folds(self, view: TrainingView, folds: int, rng: np.random.Generator) -> list[Fold]:
        """All pairs of the nodes among which `alike` is known."""
        outside = self.known[(self.known < 0) | (self.known >= view.num_nodes)]
        if len(outside):
            raise UsageError(
                f"The task names node {outside[0]}, but the graph has nodes 0 to "
                f"{view.num_nodes - 1}."
            )
        return label_folds(view, self.alike, folds, rng, labelled=self.known)

    def fit_head(
        self,
        side: TrainingData,
        embedding: Tensor,
        choice: Selected,
        seed: int,
    ) -> None:
        """No head: the task defines no answer."""
        return None

    def answer(self, head: object, fitted: FittedEmbedding, num_classes: int) -> NodePredictions:
        """Refuse: nothing can be predicted or scored."""
        raise UsageError(
            "A task of your own has no head, so there is nothing to predict or score: use "
            "embedding_, positives_, relation_weights_ or explain(u, v)."
        )
