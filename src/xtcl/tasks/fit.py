"""A whole fit for a task: embeddings and head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xtcl.graph.graph import Graph
from xtcl.tasks.answers import Answer
from xtcl.tasks.pipeline import FitOptions, FittedEmbedding, fit_embedding
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.task import Task
from xtcl.tasks.training_side import TrainingSide


@dataclass(frozen=True)
class FittedTask:
    """Embeddings with the head that answers from them."""

    task: Task
    fitted: FittedEmbedding
    head: Any
    num_classes: int

    @property
    def answer(self) -> Answer:
        """What the head says."""
        return self.task.answer(self.head, self.fitted.embedding, self.num_classes)


def fit_task(
    side: TrainingSide,
    task: Task,
    recipe: Recipe | None = None,
    options: FitOptions | None = None,
) -> FittedTask:
    """Fit embeddings and head on the training side of the data."""
    options = options or FitOptions()
    name = options.encoder if isinstance(options.encoder, str) else "own"
    chosen = recipe or task.recipe(name)

    def run(training: Graph) -> FittedEmbedding:
        # A task may fit more than once, each time on another graph: each has its own checkpoints.
        place = options.checkpoints.inside(training.fingerprint()[:16])
        return fit_embedding(training, task, chosen, replace(options, checkpoints=place))

    def embed(training: Graph) -> np.ndarray:
        return run(training).embedding

    fitted = run(side.graph)
    head = task.fit_head(side, fitted.embedding, embed, options.seed, options.device)
    return FittedTask(task, fitted, head, side.graph.num_classes)
