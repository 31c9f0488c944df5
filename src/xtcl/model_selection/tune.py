"""The recipe that does best inside the training side of one graph, found by trying."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import xtcl
from xtcl.config import FitConfig, to_builtin
from xtcl.errors import DataError, UsageError
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.model_selection.search_space import Parameter, apply_change, parameters_of
from xtcl.nn import encoder_factory
from xtcl.progress import Progress
from xtcl.tasks import make_task
from xtcl.tasks.fit import FitOptions, fit_task
from xtcl.tasks.link_prediction import hide_links
from xtcl.tasks.logistic import stratified_folds
from xtcl.tasks.metrics import test_scores
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import Split, TrainingData, training_data
from xtcl.training.checkpoint import NullCheckpoints

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.storages import RDBStorage
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

    recipe: FitConfig
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
    side: TrainingData,
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
    encoder_factory(encoder, 1, {})  # an unknown name is refused before any work
    judged = make_task(task)
    default = judged.recipe(encoder)
    knobs = parameters_of(task, default)
    options = FitOptions(encoder=encoder, seed=seed, device=device)

    def score(recipe: FitConfig) -> float:
        return validation_score(side, judged, recipe, options, rounds)

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
    return Tuned(apply_change(default, knobs, best.places), best, tried)


def _try_default(study: Study, knobs: Sequence[Parameter], score: float) -> None:
    from optuna.trial import create_trial

    usual = {knob.name: knob.usual for knob in knobs}
    study.add_trial(create_trial(params=usual, distributions=_space(knobs), value=score))


def _try_another(
    study: Study,
    knobs: Sequence[Parameter],
    seed: int,
    default: FitConfig,
    score: Callable[[FitConfig], float],
) -> None:
    from optuna.samplers import TPESampler
    from optuna.trial import TrialState

    # A sampler of its own for each trial: a search that goes on draws what it would have drawn.
    study.sampler = TPESampler(seed=seed)
    trial = study.ask(_space(knobs))
    try:
        study.tell(trial, score(apply_change(default, knobs, trial.params)))
    except DataError:  # the default could be fitted, so the data are not to blame
        study.tell(trial, state=TrialState.PRUNED)


def _space(knobs: Sequence[Parameter]) -> dict[str, BaseDistribution]:
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
    side: TrainingData, task: str, encoder: str, rounds: int, seed: int, default: FitConfig
) -> str:
    """A hash of everything but the number of trials that decides what a search finds."""
    described = [xtcl.__version__, task, encoder, rounds, seed, to_builtin(asdict(default))]
    digest = hashlib.sha256(json.dumps([*described, side.graph.fingerprint()]).encode())
    for known in (side.graph.labels, side.non_links):  # a graph's fingerprint has neither
        digest.update(b"-" if known is None else np.ascontiguousarray(known).tobytes())
    return digest.hexdigest()


FOLDS = 5


VALIDATION_SHARE = 0.2


def validation_score(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions, rounds: int
) -> float:
    """The task's metric on hidden labels or links, a fraction, averaged over `rounds` hidings.

    What is hidden is kept from relations, sampler, training, choice of plan and head alike. Every
    round has a seed of its own for the fit, too, and all recipes meet the same rounds.
    """
    scores = []
    for split in validation_splits(side, task.name, rounds, options.seed):
        seen = training_data(side.graph, split, use_labels=True)
        own = replace(options, seed=split.seed, checkpoints=NullCheckpoints())
        answer = fit_task(seen, task, recipe, own).answer
        scores.append(test_scores(answer, side.graph, split)[task.metric])
    return float(np.mean(scores))


def validation_splits(side: TrainingData, task: str, rounds: int, seed: int) -> Iterator[Split]:
    """Splits of the training side itself: what a fit may see of it, and what is hidden."""
    if rounds < 1:
        raise UsageError(f"rounds={rounds} must be at least 1.")
    hide = _hide_links if task == "links" else _hide_labels
    for number in range(rounds):
        yield hide(side, number, seed)


def _hide_labels(side: TrainingData, number: int, seed: int) -> NodeSplit:
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


def _hide_links(side: TrainingData, number: int, seed: int) -> LinkSplit:
    own = _later(seed, number)
    links = hide_links(side, VALIDATION_SHARE, own)
    (kept, kept_non), (hidden, hidden_non) = links.kept, links.hidden
    return LinkSplit(kept, hidden, kept_non, hidden_non, side.graph.num_nodes, own)


def _later(seed: int, number: int) -> int:
    """The seed `number` places on, within the 32 bits that torch reads."""
    return (seed + number) % 2**32


# Optuna's study of a search, kept in a file if wanted.
#
# Optuna is an extra: it is imported when a search begins, and not before.


def require_optuna() -> None:
    """Refuse to go on without Optuna."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise UsageError(
            'Tuning needs Optuna, which is not installed: pip install "xtcl[tune]".'
        ) from None


@contextmanager
def open_study(store: Path | None, search: str) -> Iterator[Study]:
    """A study that maximises; with a `store`, what was found there by the same `search` is in it.

    The store is an SQLite database, which survives being killed at any moment.
    """
    require_optuna()
    from optuna import create_study

    with _quiet(), _storage(store) as storage:
        study = create_study(
            storage=storage, study_name="xtcl", direction="maximize", load_if_exists=True
        )
        if study.user_attrs.get("search", search) != search:
            raise UsageError(
                f"'{store}' holds another search: of another graph, seed or setting, or by another "
                "version. Remove it to search anew."
            )
        study.set_user_attr("search", search)
        yield study


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Optuna's own log down for a while."""
    from optuna import logging

    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


@contextmanager
def _storage(store: Path | None) -> Iterator[RDBStorage | None]:
    if store is None:
        yield None
        return
    storage = _opened(store)
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _opened(store: Path) -> RDBStorage:
    from optuna.exceptions import OptunaError
    from optuna.storages import RDBStorage
    from sqlalchemy import URL
    from sqlalchemy.exc import SQLAlchemyError

    if not store.parent.is_dir():
        raise UsageError(f"There is no folder '{store.parent}' to keep the search in; make it.")
    address = URL.create("sqlite", database=str(store)).render_as_string()
    try:
        return RDBStorage(address)
    except (SQLAlchemyError, OptunaError, RuntimeError) as broken:
        raise DataError(
            f"'{store}' is no search that can go on ({type(broken).__name__}); remove it to search "
            "anew."
        ) from broken
