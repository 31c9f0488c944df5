"""A task: what makes two nodes alike, and which head turns embeddings into predictions."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.config import FIXED_RULES, EnsembleConfig, FitConfig, to_builtin
from xtcl.errors import UsageError
from xtcl.relations.view import TrainingView
from xtcl.renamed import TASK_METHODS, warn_renamed
from xtcl.sampling.folds import Fold
from xtcl.sampling.positives import PositiveLists
from xtcl.tasks.blend import Blend
from xtcl.tasks.link_head import SignalHead
from xtcl.tasks.results import FittedEmbedding, Predictions
from xtcl.tasks.training_data import TrainingData

if TYPE_CHECKING:
    from xtcl.tasks.fit import Trial


class Task(ABC):
    """The paper's task t. It reads the training data only, never the test side."""

    name: ClassVar[str]
    metric: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Accept methods under the names of the last release."""
        for old, new in TASK_METHODS.items():
            if old in vars(cls):
                warn_renamed(f"{cls.__name__}.{old}", new)
                setattr(cls, new, vars(cls)[old])

    @abstractmethod
    def recipe(self, encoder: str) -> FitConfig:
        """The default recipe for this task with the named encoder."""

    def named_recipe(self, name: str, encoder: str) -> FitConfig:
        """The recipe called `name`, one of `xtcl.config.RECIPES`, with the named encoder."""
        if name != FIXED_RULES:
            raise UsageError(
                f"The recipe '{name}' is for nodes; for {self.name} there is '{FIXED_RULES}'."
            )
        return self.recipe(encoder)

    @abstractmethod
    def folds(self, view: TrainingView, folds: int, rng: np.random.Generator) -> list[Fold]:
        """The pairs whose I_t is known, for fitting the sampler."""

    def excluded(self, view: TrainingView, config: FitConfig) -> sp.csr_array | None:
        """Pairs that the sampler may not choose as positives, as a sparse 0/1 matrix."""
        return None

    @abstractmethod
    def sources(
        self, view: TrainingView, positives: np.ndarray, config: FitConfig
    ) -> list[PositiveLists]:
        """What training draws from, given the table of the sampler's positives [V, B]."""

    def choose(self, data: TrainingData, config: FitConfig, trial: Trial) -> Selected:
        """The ensemble to train, and what else is decided before the fit.

        A task that can hide part of its training data tries the ensembles on the rest with `trial`.
        The others take the first.
        """
        return Selected(config.ensembles[0])

    def fit_chosen(
        self,
        data: TrainingData,
        fitted: FittedEmbedding,
        choice: Selected,
        precision: float,
        seed: int,
    ) -> Any:
        """The heads that hidden labels chose, for tasks whose `choose` returns a blend.

        `precision` is `FitConfig.pseudo_label_precision`.
        """
        raise NotImplementedError(f"{type(self).__name__} chooses no heads by hidden labels.")

    @abstractmethod
    def fit_head(
        self,
        side: TrainingData,
        embedding: Tensor,
        choice: Selected,
        seed: int,
    ) -> Any:
        """The head for `embedding`, which came from the ensemble of `choice`."""

    def finish_head(self, side: TrainingData, embedding: Tensor, head: Any) -> Any:
        """The chosen head, fitted to convergence; see `xtcl.tasks.fit.with_head`."""
        return head

    def self_train(
        self,
        side: TrainingData,
        embedding: Tensor,
        head: Any,
        config: FitConfig,
        seed: int,
    ) -> Any:
        """The head fitted again with its own predictions as labels; the head itself by default."""
        return head

    def cv_log_likelihood(self, head: Any) -> float:
        """Mean log-likelihood of what was held out of the head; nan where it is not known."""
        return math.nan

    @abstractmethod
    def answer(self, head: Any, fitted: FittedEmbedding, num_classes: int) -> Predictions:
        """What the head predicts: for all nodes, or for any pairs."""


@dataclass(frozen=True)
class Selected:
    """What a task chose: an ensemble, and what predicts from it.

    That is for links the scorer that did best, for nodes the blend that hidden labels chose.
    """

    ensemble: EnsembleConfig
    scorer: SignalHead | None = None
    blend: Blend | None = None

    def to_tensors(self) -> dict[str, Tensor]:
        """The choice for a checkpoint."""
        scorer = {} if self.scorer is None else self.scorer.to_tensors()
        arrays = {f"scorer.{name}": torch.from_numpy(array) for name, array in scorer.items()}
        if self.blend is not None:
            arrays["blend"] = _text(asdict(self.blend))
        return arrays | {"plan": _text(asdict(self.ensemble))}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Selected:
        """The choice that `to_tensors` wrote."""
        ensemble = EnsembleConfig.from_dict(_read(tensors["plan"]))
        scorer = {
            name.removeprefix("scorer."): tensor.numpy()
            for name, tensor in tensors.items()
            if name.startswith("scorer.")
        }
        blend = Blend.from_dict(_read(tensors["blend"])) if "blend" in tensors else None
        return cls(ensemble, SignalHead.from_tensors(scorer) if scorer else None, blend)


def _text(values: dict[str, Any]) -> Tensor:
    """Plain values as JSON, for a checkpoint, which holds tensors alone."""
    encoded = json.dumps(to_builtin(values)).encode()
    return torch.frombuffer(bytearray(encoded), dtype=torch.uint8)


def _read(text: Tensor) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(text.numpy().tobytes())
    return values
