"""The interface of a compared method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch

from xtcl.config import FitConfig
from xtcl.errors import UsageError
from xtcl.progress import Progress
from xtcl.tasks import Predictions, TrainingData, make_task
from xtcl.tasks.fit import FitOptions, fit_task


class Method(ABC):
    """A method that answers a task from the training data alone: it never gets the test side."""

    name: ClassVar[str]
    """How the command line and result files call it."""
    title: ClassVar[str]
    """How tables and figures call it."""
    tasks: ClassVar[frozenset[str]]

    @abstractmethod
    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Learn from `side`: class probabilities for "nodes", a scorer of pairs for "links"."""

    def check_task(self, task: str) -> None:
        """Refuse a task that this method has no answer to."""
        if task not in self.tasks:
            raise UsageError(
                f"{self.title} has no task '{task}'. It knows: {', '.join(sorted(self.tasks))}."
            )


class XTCLMethod(Method):
    """XTCL with the default recipe of the task, or with another."""

    tasks: ClassVar[frozenset[str]] = frozenset({"nodes", "links"})
    encoder: ClassVar[str]

    def __init__(self, recipe: FitConfig | None = None) -> None:
        self.recipe = recipe

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Fit embeddings and head."""
        self.check_task(task)
        if task == "nodes":
            _ = side.labels  # refuses a graph without any
        options = self.options(seed=seed, device=device, progress=progress)
        return fit_task(side, make_task(task), self.recipe_for(task), options).answer

    def options(self, **given: Any) -> FitOptions:
        """What a fit takes besides data, task and recipe."""
        return FitOptions(encoder=self.encoder, **given)

    def recipe_for(self, task: str) -> FitConfig:
        """The recipe that a fit for `task` follows."""
        return self.recipe or make_task(task).recipe(self.encoder)


class XTCLGCN(XTCLMethod):
    """XTCL, the method of this package, with graph convolutions."""

    name: ClassVar[str] = "xtcl-gcn"
    title: ClassVar[str] = "XTCL (GCN)"
    encoder: ClassVar[str] = "gcn"


class XTCLGAT(XTCLMethod):
    """XTCL, the method of this package, with graph attention."""

    name: ClassVar[str] = "xtcl-gat"
    title: ClassVar[str] = "XTCL (GAT)"
    encoder: ClassVar[str] = "gat"
