"""Fits for nodes that differ from `fit_task` after the positives are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xtcl.config import FitConfig
from xtcl.nn.loss import Loss
from xtcl.sampling.positives import Positives
from xtcl.sampling.strategies import likely_positives
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.fit import (
    FitOptions,
    FittedTask,
    SampledPositives,
    fit_sampler,
    sample_positives,
    train_ensemble,
    with_head,
)
from xtcl.tasks.task import Selected, Task
from xtcl.tasks.training_data import TrainingData


def fit_from(
    found: SampledPositives, side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions
) -> FittedTask:
    """The rest of `fit_task` for a recipe with one plan."""
    (ensemble,) = recipe.ensembles
    fitted = train_ensemble(side.graph, task, recipe, ensemble, found, options)
    return with_head(side, task, recipe, Selected(ensemble), fitted, options)


def fit_with_loss(
    make_loss: Callable[[XGSampler, Positives], Loss],
    side: TrainingData,
    task: Task,
    recipe: FitConfig,
    options: FitOptions,
) -> FittedTask:
    """A fit whose loss knows what the sampler found."""
    sampler = fit_sampler(side.graph, task, recipe, options)
    best = sampler.positives(recipe.positives)
    own = replace(options, loss=make_loss(sampler, best))
    found = SampledPositives(sampler, *likely_positives(best, recipe.min_probability))
    return fit_from(found, side, task, recipe, own)


def fit_in_full_trust(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions
) -> FittedTask:
    """Positives that are likely enough, and trusted as if all candidates had been."""
    found = sample_positives(side.graph, task, recipe, options)
    return fit_from(found._replace(trust=1.0), side, task, recipe, options)


def fit_unfiltered(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions
) -> FittedTask:
    """All candidates for positives, trusted as far as they are likely."""
    found = sample_positives(side.graph, task, recipe, options)
    all_positives = found.sampler.positives(recipe.positives).nodes
    return fit_from(found._replace(positives=all_positives), side, task, recipe, options)
