"""A fit for nodes whose loss knows what the sampler found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xtcl.learning.loss import Loss
from xtcl.sampling.positives import Positives
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.choice import Choice
from xtcl.tasks.fit import FittedTask
from xtcl.tasks.pipeline import FitOptions, Found, fit_sampler, train_plan
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.task import Task
from xtcl.tasks.training_side import TrainingSide


def fit_with_loss(
    make_loss: Callable[[XGSampler, Positives], Loss],
    side: TrainingSide,
    task: Task,
    recipe: Recipe,
    options: FitOptions,
) -> FittedTask:
    """`fit_task` of a recipe with one plan, with the loss made after the positives are found."""
    (plan,) = recipe.plans
    sampler = fit_sampler(side.graph, task, recipe, options)
    best = sampler.positives(recipe.positives)
    own = replace(options, loss=make_loss(sampler, best))
    found = Found.among(best, sampler, recipe)
    fitted = train_plan(side.graph, task, recipe, plan, found, own)
    head = task.fit_head(side, fitted.embedding, Choice(plan), options.seed, options.device)
    return FittedTask(task, fitted, head, side.graph.num_classes)
