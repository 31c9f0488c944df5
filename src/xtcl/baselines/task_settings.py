"""Self-supervised systems whose settings depend on the task that the embedding is for."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

import torch

from xtcl.baselines.self_supervised import SelfSupervised
from xtcl.graph.graph import Graph
from xtcl.progress import Progress
from xtcl.tasks.answers import Answer
from xtcl.tasks.training_side import TrainingSide

Settings = TypeVar("Settings")


class WithTaskSettings(SelfSupervised, Generic[Settings]):
    """Fits with the settings of graph and task; `embed` by itself takes those for nodes."""

    def __init__(self, settings: Settings | None = None) -> None:
        """`settings` instead of those of the graph and the task."""
        self.settings = settings

    @abstractmethod
    def settings_for(self, graph: Graph, task: str) -> Settings:
        """The settings for a graph, which its name may tell, and a task."""

    def fit(
        self,
        side: TrainingSide,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Answer:
        """Settle the settings, embed, and fit the head of the task."""
        self.check_task(task)
        settled = type(self)(self.settings or self.settings_for(side.graph, task))
        return super(WithTaskSettings, settled).fit(
            side, task, seed=seed, device=device, progress=progress
        )
