"""One fit, from a training graph to embeddings: relations, sampler, positives, training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from xtcl.graph.graph import Graph
from xtcl.learning.checkpoint import NoCheckpoints
from xtcl.learning.encoders.registry import encoder_maker
from xtcl.learning.inputs import encoder_inputs
from xtcl.learning.trainer import Trained, train
from xtcl.progress import Progress
from xtcl.relations.relation import Relation
from xtcl.relations.view import TrainingView
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.task import Task
from xtcl.tasks.training_side import TrainingSide


@dataclass(frozen=True)
class FitOptions:
    """What a fit needs to know besides its recipe."""

    encoder: str | nn.Module = "gcn"
    relations: str | Sequence[str | Relation] = "paper"
    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    block_rows: int | None = None
    progress: Progress = field(default_factory=Progress)
    checkpoints: NoCheckpoints = field(default_factory=NoCheckpoints)


@dataclass(frozen=True)
class FittedEmbedding:
    """What a fit leaves: the sampler, its positives, the trained encoder and the embeddings."""

    sampler: XGSampler
    positives: np.ndarray
    encoder: nn.Module
    trained: Trained

    @property
    def embedding(self) -> np.ndarray:
        """One float32 row per node."""
        return np.asarray(self.trained.embedding.cpu().numpy())


def fit_sampler(training: Graph, task: Task, recipe: Recipe, options: FitOptions) -> XGSampler:
    """Learn from `training` which relations speak for the task."""
    view = TrainingView.of(training, TrainingSide(training).labelled, options.device)
    sampler = XGSampler(
        options.relations, recipe.sampler, block_rows=options.block_rows, seed=options.seed
    )
    saved = options.checkpoints.load("counts")
    if saved is not None:
        counts = PatternCounts(saved["codes"].numpy(), saved["counts"].numpy())
        return sampler.restore(view, counts)
    folds = task.folds(view, recipe.crossfit, np.random.default_rng([options.seed, 0]))
    with options.progress.stage("learning which relations matter", len(folds)) as advance:
        sampler.fit(view, folds, advance)
    found = {"codes": sampler.counts_.codes, "counts": sampler.counts_.counts}
    options.checkpoints.save("counts", {k: torch.from_numpy(v) for k, v in found.items()})
    return sampler


def fit_embedding(
    training: Graph, task: Task, recipe: Recipe, options: FitOptions
) -> FittedEmbedding:
    """Run everything up to the embeddings on what `training` holds."""
    sampler = fit_sampler(training, task, recipe, options)
    table = _positives(sampler, task, recipe, options)
    x, edge_index = encoder_inputs(training, options.device)
    with options.progress.stage("training", recipe.training.epochs) as advance:
        done = 0

        def count_epochs(epoch: int, loss: float) -> None:
            nonlocal done  # a resumed training starts with more than one
            advance(epoch - done)
            done = epoch

        encoder, trained = train(
            encoder_maker(options.encoder, x.shape[1], recipe.encoder_options),
            x,
            edge_index,
            task.sources(sampler.view_, table, recipe),
            recipe.training,
            seed=options.seed,
            on_epoch=count_epochs,
            checkpoints=options.checkpoints,
        )
    return FittedEmbedding(sampler, table, encoder, trained)


def _positives(sampler: XGSampler, task: Task, recipe: Recipe, options: FitOptions) -> np.ndarray:
    saved = options.checkpoints.load("positives")
    if saved is not None:
        return np.asarray(saved["nodes"].numpy())
    with options.progress.stage("finding positives", sampler.view_.num_nodes) as advance:
        unwanted = task.excluded(sampler.view_, recipe)
        found = sampler.positives(recipe.positives, exclude=unwanted, progress=advance)
    options.checkpoints.save("positives", {"nodes": torch.from_numpy(found.nodes)})
    return found.nodes
