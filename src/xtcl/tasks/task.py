"""A task: what makes two nodes alike, and which head turns embeddings into answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from xtcl.graph.graph import Graph
from xtcl.learning.positive_source import PositiveSource
from xtcl.relations.view import TrainingView
from xtcl.sampling.fold import Fold
from xtcl.tasks.answers import Answer
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.training_side import TrainingSide

Embed = Callable[[Graph], np.ndarray]
"""Runs relations, sampler and training on a graph and gives one embedding row per node."""


class Task(ABC):
    """The paper's task t. It works on the training side of the data only."""

    name: ClassVar[str]
    metric: ClassVar[str]

    @abstractmethod
    def recipe(self, encoder: str) -> Recipe:
        """The default recipe for this task with the named encoder."""

    @abstractmethod
    def folds(self, view: TrainingView, folds: int, rng: np.random.Generator) -> list[Fold]:
        """The pairs whose I_t is known, for fitting the sampler."""

    def excluded(self, view: TrainingView, recipe: Recipe) -> sp.csr_array | None:
        """Pairs that the sampler may not choose as positives, as a sparse 0/1 matrix."""
        return None

    @abstractmethod
    def sources(
        self, view: TrainingView, positives: np.ndarray, recipe: Recipe
    ) -> list[PositiveSource]:
        """What training draws from, given the table of the sampler's positives [V, B]."""

    @abstractmethod
    def fit_head(
        self,
        side: TrainingSide,
        embedding: np.ndarray,
        embed: Embed,
        seed: int,
        device: torch.device,
    ) -> Any:
        """The head for `embedding`; `embed` repeats the fit on less data where it must choose."""

    @abstractmethod
    def answer(self, head: Any, embedding: np.ndarray, num_classes: int) -> Answer:
        """What the head says about all nodes, or about any pairs."""
