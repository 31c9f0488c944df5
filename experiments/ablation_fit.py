"""Fits for nodes that part from `fit_task` once the positives are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xtcl.config import Recipe
from xtcl.nn.loss import Loss
from xtcl.sampling.positives import Positives
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.fit import (
    FitOptions,
    FittedTask,
    Found,
    find_positives,
    fit_sampler,
    train_plan,
    with_head,
)
from xtcl.tasks.task import Choice, Task
from xtcl.tasks.training_data import TrainingSide


def fit_from(
    found: Found, side: TrainingSide, task: Task, recipe: Recipe, options: FitOptions
) -> FittedTask:
    """The rest of `fit_task` for a recipe with one plan."""
    (plan,) = recipe.plans
    fitted = train_plan(side.graph, task, recipe, plan, found, options)
    return with_head(side, task, recipe, Choice(plan), fitted, options)


def fit_with_loss(
    make_loss: Callable[[XGSampler, Positives], Loss],
    side: TrainingSide,
    task: Task,
    recipe: Recipe,
    options: FitOptions,
) -> FittedTask:
    """A fit whose loss knows what the sampler found."""
    sampler = fit_sampler(side.graph, task, recipe, options)
    best = sampler.positives(recipe.positives)
    own = replace(options, loss=make_loss(sampler, best))
    return fit_from(Found.among(best, sampler, recipe), side, task, recipe, own)


def fit_in_full_trust(
    side: TrainingSide, task: Task, recipe: Recipe, options: FitOptions
) -> FittedTask:
    """Positives that are likely enough, and trusted as if all candidates had been."""
    found = find_positives(side.graph, task, recipe, options)
    return fit_from(found._replace(trust=1.0), side, task, recipe, options)


def fit_unfiltered(
    side: TrainingSide, task: Task, recipe: Recipe, options: FitOptions
) -> FittedTask:
    """All candidates for positives, trusted as far as they are likely."""
    found = find_positives(side.graph, task, recipe, options)
    everyone = found.sampler.positives(recipe.positives).nodes
    return fit_from(found._replace(positives=everyone), side, task, recipe, options)
