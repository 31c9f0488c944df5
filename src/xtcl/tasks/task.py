"""A task: what makes two nodes alike, and which head turns embeddings into answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.config import EnsembleConfig, FitConfig
from xtcl.graph.graph import Graph
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import Fold
from xtcl.tasks.link_head import SignalHead
from xtcl.tasks.results import FittedEmbedding, Predictions
from xtcl.tasks.training_data import TrainingData
from xtcl.training.batch import PositiveLists
from xtcl.training.early_stopping import Scorer


class Task(ABC):
    """The paper's task t. It works on the training side of the data only."""

    name: ClassVar[str]
    metric: ClassVar[str]

    @abstractmethod
    def recipe(self, encoder: str) -> FitConfig:
        """The default recipe for this task with the named encoder."""

    @abstractmethod
    def folds(self, view: TrainingView, folds: int, rng: np.random.Generator) -> list[Fold]:
        """The pairs whose I_t is known, for fitting the sampler."""

    def excluded(self, view: TrainingView, recipe: FitConfig) -> sp.csr_array | None:
        """Pairs that the sampler may not choose as positives, as a sparse 0/1 matrix."""
        return None

    @abstractmethod
    def sources(
        self, view: TrainingView, positives: np.ndarray, recipe: FitConfig
    ) -> list[PositiveLists]:
        """What training draws from, given the table of the sampler's positives [V, B]."""

    def choose(
        self, side: TrainingData, recipe: FitConfig, trial: Trial, seed: int, device: torch.device
    ) -> Selected:
        """The plan to follow; `trial` fits on less data where something must be hidden to choose.

        Without a way to hide anything, the first.
        """
        return Selected(recipe.ensembles[0])

    @abstractmethod
    def fit_head(
        self,
        side: TrainingData,
        embedding: Tensor,
        choice: Selected,
        seed: int,
    ) -> Any:
        """The head for `embedding`, which came from the plan of `choice`."""

    def finish_head(self, side: TrainingData, embedding: Tensor, head: Any) -> Any:
        """What is left to do for a head of `fit_head` when it is the one that is taken."""
        return head

    def second_head(
        self,
        side: TrainingData,
        embedding: Tensor,
        head: Any,
        recipe: FitConfig,
        seed: int,
    ) -> Any:
        """What becomes of the head when it is fitted again; the head itself where it is not."""
        return head

    def evidence(self, head: Any) -> float:
        """How well the head does on what was held out of it; higher is better, nan: not known."""
        return math.nan

    @abstractmethod
    def answer(self, head: Any, fitted: FittedEmbedding, num_classes: int) -> Predictions:
        """What the head says about all nodes, or about any pairs."""


@dataclass(frozen=True)
class Selected:
    """A plan, and for links the head that did best with it."""

    plan: EnsembleConfig
    scorer: SignalHead | None = None


Train = Callable[[EnsembleConfig, Scorer | None, float], FittedEmbedding]
"""Trains a plan; with a judge, for as long as the judge sees it improve, and not for long where it
stays far below the number given."""


Trial = Callable[[Graph], Train]
"""Runs relations and sampler on a graph, and gives a function that trains on what they found."""
