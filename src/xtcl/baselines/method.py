"""The interface of a compared method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch

from xtcl.errors import UsageError
from xtcl.progress import Progress
from xtcl.tasks.answers import Answer
from xtcl.tasks.training_side import TrainingSide


class Method(ABC):
    """A method that answers a task from the training side alone: it has no way to the test side."""

    name: ClassVar[str]
    """How the command line and result files call it."""
    title: ClassVar[str]
    """How tables and figures call it."""
    tasks: ClassVar[frozenset[str]]

    @abstractmethod
    def fit(
        self,
        side: TrainingSide,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Answer:
        """Learn from `side`: class probabilities for "nodes", a scorer of pairs for "links"."""

    def check_task(self, task: str) -> None:
        """Refuse a task that this method has no answer to."""
        if task not in self.tasks:
            raise UsageError(
                f"{self.title} has no task '{task}'. It knows: {', '.join(sorted(self.tasks))}."
            )
