"""The supervised contrastive loss as if every label were known: a ceiling, no competitor."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from xtcl.baselines.contrastive import Contrastive
from xtcl.baselines.method import Method
from xtcl.baselines.scl import class_positives
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.progress import Progress
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.training_side import TrainingSide


class CeilingSCL(Contrastive):
    r"""XTCL with the true classes of all nodes. It sees the test labels: no competitor.

    .. math:: p_b \sim \mathcal U\{v \in V \setminus u \mid y_v = y_u\}, \qquad u \in V

    Definition 6 of Lin and Neville (2024): what the loss could do with positives that are always
    right. The encoder trains on the true labels of all nodes, test nodes included; the head is
    fitted on training labels as ever. The training side holds no such labels, so whoever wants the
    ceiling has to hand them over as `truth`, and a method made by name alone refuses to fit. Cost
    of the positives: O(V B).
    """

    name: ClassVar[str] = "ceiling-scl"
    title: ClassVar[str] = "Ceiling SCL (sees the test labels)"

    def __init__(self, truth: np.ndarray | None = None, recipe: Recipe | None = None) -> None:
        """`truth` holds the label code of every node, -1 where nobody knows it."""
        super().__init__(recipe)
        self.truth = truth

    def positives(
        self,
        side: TrainingSide,
        recipe: Recipe,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> np.ndarray:
        """Any nodes of the same class."""
        return class_positives(self._true_labels(side), recipe.positives, seed=seed)

    def _true_labels(self, side: TrainingSide) -> np.ndarray:
        if self.truth is None:
            raise UsageError(
                f"{self.title} needs the true labels of all nodes, which no fit is shown: hand "
                "them over as CeilingSCL(truth=graph.labels). It is a ceiling, no competitor."
            )
        known = side.labelled
        fits = self.truth.shape == side.labels.shape
        if not fits or (self.truth[known] != side.labels[known]).any():
            raise DataError(
                f"The true labels given to {self.title} contradict those of graph "
                f"'{side.graph.name}': give the labels of the graph that was split."
            )
        return self.truth


def with_truth(method: Method, graph: Graph) -> Method:
    """The method itself; the ceiling with the true labels of `graph` in its hands."""
    if not isinstance(method, CeilingSCL):
        return method
    return CeilingSCL(graph.labels, method.recipe)
