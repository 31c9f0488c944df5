"""The recipe that does best inside the training side of one graph, found by trying."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import xtcl
from xtcl.errors import DataError, UsageError
from xtcl.experiments.hidden_score import hidden_score
from xtcl.experiments.search_space import Knob, knobs_of, turn
from xtcl.experiments.study import open_study
from xtcl.learning.encoders.registry import encoder_maker
from xtcl.progress import Progress
from xtcl.tasks.pipeline import FitOptions
from xtcl.tasks.plain import plain
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.registry import make_task
from xtcl.tasks.training_side import TrainingSide

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class TunedTrial:
    """Where the knobs of the search space were, and the hidden score.

    It is minus infinity for a recipe that cannot be trained with, as when the loss overflows.
    """

    places: Mapping[str, Any]
    score: float


@dataclass(frozen=True)
class Tuned:
    """The best recipe by its hidden score, beside the default one, which is the first trial.

    The best score of many is flattered by having been chosen: only data outside of the training
    side say what the recipe is worth.
    """

    recipe: Recipe
    best: TunedTrial
    trials: tuple[TunedTrial, ...]

    @property
    def score(self) -> float:
        """The hidden score of the best recipe, a fraction."""
        return self.best.score

    @property
    def default_score(self) -> float:
        """The hidden score of the default recipe, a fraction."""
        return self.trials[0].score


def tune(
    side: TrainingSide,
    task: str,
    encoder: str,
    *,
    trials: int,
    rounds: int,
    seed: int,
    device: torch.device,
    progress: Progress,
    store: Path | None = None,
) -> Tuned:
    """Try `trials` recipes for a task, each by its hidden score over `rounds`.

    With a `store` every trial is kept in that file. A search that was interrupted, or that is to
    have more trials, goes on from there, and finds what it would have found in one go.
    """
    if trials < 1:
        raise UsageError(f"trials={trials} must be at least 1.")
    encoder_maker(encoder, 1, {})  # an unknown name is refused before any work
    judged = make_task(task)
    default = judged.recipe(encoder)
    knobs = knobs_of(task, default)
    options = FitOptions(encoder=encoder, seed=seed, device=device)

    def score(recipe: Recipe) -> float:
        return hidden_score(side, judged, recipe, options, rounds)

    search = _identity(side, task, encoder, rounds, seed, default)
    with open_study(store, search) as study, progress.stage("tuning", trials) as advance:
        advance(min(trials, len(_finished(study))))
        while (number := len(_finished(study))) < trials:
            if number == 0:
                _try_default(study, knobs, score(default))
            else:
                _try_another(study, knobs, _seed_of(seed, number), default, score)
            advance(1)
        tried = tuple(_told(trial) for trial in _finished(study)[:trials])
    best = max(tried, key=lambda trial: trial.score)  # the first of equals
    return Tuned(turn(default, knobs, best.places), best, tried)


def _try_default(study: Study, knobs: Sequence[Knob], score: float) -> None:
    from optuna.trial import create_trial

    usual = {knob.name: knob.usual for knob in knobs}
    study.add_trial(create_trial(params=usual, distributions=_space(knobs), value=score))


def _try_another(
    study: Study,
    knobs: Sequence[Knob],
    seed: int,
    default: Recipe,
    score: Callable[[Recipe], float],
) -> None:
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    # A sampler of its own for each trial: a search that goes on draws what it would have drawn.
    study.sampler = TPESampler(seed=seed)
    trial = study.ask(_space(knobs))
    try:
        study.tell(trial, score(turn(default, knobs, trial.params)))
    except DataError:  # the default could be fitted, so the data are not to blame
        study.tell(trial, state=TrialState.PRUNED)


def _space(knobs: Sequence[Knob]) -> dict[str, BaseDistribution]:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return {
        knob.name: CategoricalDistribution(knob.values)
        if knob.kind == "choice"
        else FloatDistribution(min(knob.values), max(knob.values), log=knob.kind == "factor")
        for knob in knobs
    }


def _finished(study: Study) -> list[FrozenTrial]:
    """The trials that came to an end; one that was killed is tried again as another."""
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))


def _told(trial: FrozenTrial) -> TunedTrial:
    return TunedTrial(dict(trial.params), -math.inf if trial.value is None else trial.value)


def _seed_of(seed: int, number: int) -> int:
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _identity(
    side: TrainingSide, task: str, encoder: str, rounds: int, seed: int, default: Recipe
) -> str:
    """A hash of everything but the number of trials that decides what a search finds."""
    described = [xtcl.__version__, task, encoder, rounds, seed, plain(asdict(default))]
    digest = hashlib.sha256(json.dumps([*described, side.graph.fingerprint()]).encode())
    for known in (side.graph.labels, side.non_links):  # a graph's fingerprint has neither
        digest.update(b"-" if known is None else np.ascontiguousarray(known).tobytes())
    return digest.hexdigest()
