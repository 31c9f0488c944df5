"""A whole fit for a task: the choice of a plan, embeddings and head."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from xtcl.graph.graph import Graph
from xtcl.learning.checkpoint import NoCheckpoints
from xtcl.learning.watch import Judge
from xtcl.memory import give_back_freed
from xtcl.ranks import ranks
from xtcl.tasks.answers import Answer
from xtcl.tasks.choice import Choice, Train
from xtcl.tasks.fitted import FittedEmbedding
from xtcl.tasks.link_signals import SignalHead
from xtcl.tasks.pipeline import (
    FitOptions,
    Found,
    doubting,
    embedded_again,
    find_positives,
    train_plan,
)
from xtcl.tasks.plain import plain
from xtcl.tasks.recipe import Plan, Recipe
from xtcl.tasks.task import Task
from xtcl.tasks.training_side import TrainingSide

LEAD = 0.005
"""By how much the log-likelihood of a held-out label must be higher with all that was learned, some
of which may have seen it. On Cora, CiteSeer and Computers it is by 0.01 and more, on Photo not."""


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
        return self.task.answer(self.head, self.fitted, self.num_classes)


def fit_task(
    side: TrainingSide,
    task: Task,
    recipe: Recipe | None = None,
    options: FitOptions | None = None,
) -> FittedTask:
    """Fit embeddings and head on the training side of the data."""
    options = options or FitOptions()
    name = options.encoder if isinstance(options.encoder, str) else "own"
    recipe = recipe or task.recipe(name)

    def on(training: Graph) -> tuple[FitOptions, Found]:
        # A task may fit more than once, each time on another graph: each has its own checkpoints.
        own = replace(options, checkpoints=options.checkpoints.inside(training.fingerprint()[:16]))
        return own, find_positives(training, task, recipe, own)

    def trial(training: Graph) -> Train:
        own, found = on(training)
        own = replace(own, checkpoints=NoCheckpoints())  # a trial's training is not resumed

        def train(plan: Plan, judge: Judge | None, to_beat: float) -> FittedEmbedding:
            return train_plan(training, task, recipe, plan, found, own, judge, to_beat)

        return train

    saved = options.checkpoints.load("choice")
    if saved is not None:
        choice = _choice(saved)
    else:
        choice = _agreed(task.choose(side, recipe, trial, options.seed, options.device))
        options.checkpoints.save("choice", _tensors(choice))
    own, found = on(side.graph)
    return with_head(
        side,
        task,
        recipe,
        choice,
        train_plan(side.graph, task, recipe, choice.plan, found, own),
        options,
    )


def with_head(
    side: TrainingSide,
    task: Task,
    recipe: Recipe,
    choice: Choice,
    fitted: FittedEmbedding,
    options: FitOptions,
) -> FittedTask:
    """The embedding with its head; in doubt (`Recipe.doubt`), with less of what was learned."""

    def headed(embedded: FittedEmbedding) -> FittedTask:
        head = task.fit_head(side, embedded.embedding, choice, options.seed)
        return FittedTask(task, embedded, head, side.graph.num_classes)

    chosen = headed(fitted)
    del fitted  # of the two embeddings one is not needed any more when the head is fitted again
    if recipe.doubt < 1 and chosen.fitted.plan.attributes:
        doubted = headed(doubting(chosen.fitted, side.graph.num_attributes, recipe.doubt))
        lead = task.evidence(chosen.head) - task.evidence(doubted.head)
        if lead < LEAD:  # not where nothing is known of one of them
            head, bare = doubted.head, replace(doubted.fitted, embedding=torch.empty(0))
            del chosen, doubted  # no embedding is there any more when the encoder gives its own
            fitted = embedded_again(bare, side.graph, options.device)
            chosen = FittedTask(task, fitted, head, side.graph.num_classes)
        else:
            del doubted
    embedding = chosen.fitted.embedding
    chosen = replace(chosen, head=task.finish_head(side, embedding, chosen.head))
    if recipe.sure == 1:
        return chosen
    give_back_freed()
    head = task.second_head(side, embedding, chosen.head, recipe, options.seed)
    return replace(chosen, head=head)


def _agreed(choice: Choice) -> Choice:
    """The choice of the first rank, so that rounding does not lead ranks different ways."""
    everyone = ranks()
    if everyone.number == 1:
        return choice
    return _choice(everyone.tensors_from_first(_tensors(choice)) or {})


def _tensors(choice: Choice) -> dict[str, Tensor]:
    text = json.dumps(plain(asdict(choice.plan))).encode()
    scorer = {} if choice.scorer is None else choice.scorer.to_tensors()
    arrays = {f"scorer.{name}": torch.from_numpy(array) for name, array in scorer.items()}
    return arrays | {"plan": torch.frombuffer(bytearray(text), dtype=torch.uint8)}


def _choice(tensors: dict[str, Tensor]) -> Choice:
    plan = Plan.from_plain(json.loads(tensors["plan"].numpy().tobytes()))
    scorer = {
        name.removeprefix("scorer."): tensor.numpy()
        for name, tensor in tensors.items()
        if name.startswith("scorer.")
    }
    return Choice(plan, SignalHead.from_tensors(scorer) if scorer else None)
