"""How good a recipe is, judged inside the training side: part of that is hidden from whole fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from xtcl.errors import DataError, UsageError
from xtcl.graph.link_split import LinkSplit
from xtcl.graph.node_split import NodeSplit
from xtcl.learning.checkpoint import NoCheckpoints
from xtcl.tasks.fit import fit_task
from xtcl.tasks.link_scorer_choice import hide_links
from xtcl.tasks.pipeline import FitOptions
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.scoring import score_on_test
from xtcl.tasks.strength_choice import stratified_folds
from xtcl.tasks.task import Task
from xtcl.tasks.training_side import Split, TrainingSide, training_side

FOLDS = 5
HIDDEN_SHARE = 0.2


def hidden_score(
    side: TrainingSide, task: Task, recipe: Recipe, options: FitOptions, rounds: int
) -> float:
    """The task's metric on hidden labels or links, a fraction, averaged over `rounds` hidings.

    What is hidden is kept from relations, sampler, training, choice of plan and head alike. Every
    round has a seed of its own for the fit, too, and all recipes meet the same rounds.
    """
    scores = []
    for split in hidings(side, task.name, rounds, options.seed):
        seen = training_side(side.graph, split, use_labels=True)
        own = replace(options, seed=split.seed, checkpoints=NoCheckpoints())
        answer = fit_task(seen, task, recipe, own).answer
        scores.append(score_on_test(answer, side.graph, split)[task.metric])
    return float(np.mean(scores))


def hidings(side: TrainingSide, task: str, rounds: int, seed: int) -> Iterator[Split]:
    """Splits of the training side itself: what a fit may see of it, and what is hidden."""
    if rounds < 1:
        raise UsageError(f"rounds={rounds} must be at least 1.")
    hide = _hide_links if task == "links" else _hide_labels
    for number in range(rounds):
        yield hide(side, number, seed)


def _hide_labels(side: TrainingSide, number: int, seed: int) -> NodeSplit:
    known, codes = side.labelled, side.labels[side.labelled]
    _, members = np.unique(codes, return_counts=True)
    folds = min(FOLDS, int(members[members > 1].sum()))
    if not folds:
        raise DataError(
            f"No class of graph '{side.graph.name}' has two training labels, so that none can be "
            "hidden to judge a recipe by: give more labels."
        )
    # When every fold has been hidden once, the cards are dealt anew.
    hidden = stratified_folds(codes, folds, _later(seed, number // folds)) == number % folds
    return NodeSplit(known[~hidden], known[hidden], _later(seed, number))


def _hide_links(side: TrainingSide, number: int, seed: int) -> LinkSplit:
    own = _later(seed, number)
    links = hide_links(side, HIDDEN_SHARE, own)
    (kept, kept_non), (hidden, hidden_non) = links.kept, links.hidden
    return LinkSplit(kept, hidden, kept_non, hidden_non, side.graph.num_nodes, own)


def _later(seed: int, number: int) -> int:
    """The seed `number` places on, within the 32 bits that torch reads."""
    return (seed + number) % 2**32
