"""The package's own pipeline as a compared method."""

from __future__ import annotations

from typing import ClassVar

import torch

from xtcl.baselines.method import Method
from xtcl.progress import Progress
from xtcl.tasks.answers import Answer
from xtcl.tasks.fit import fit_task
from xtcl.tasks.pipeline import FitOptions
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.registry import make_task
from xtcl.tasks.training_side import TrainingSide


class XTCLMethod(Method):
    """XTCL with the default recipe of the task, or with another."""

    tasks: ClassVar[frozenset[str]] = frozenset({"nodes", "links"})
    encoder: ClassVar[str]

    def __init__(self, recipe: Recipe | None = None) -> None:
        self.recipe = recipe

    def fit(
        self,
        side: TrainingSide,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Answer:
        """Fit embeddings and head."""
        self.check_task(task)
        options = FitOptions(encoder=self.encoder, seed=seed, device=device, progress=progress)
        return fit_task(side, make_task(task), self.recipe_for(task), options).answer

    def recipe_for(self, task: str) -> Recipe:
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
