"""Tuning: a search by Optuna for the recipe with the best score inside the training data."""

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
from xtcl.graph import LinkSplit, NodeSplit
from xtcl.model_selection.search_space import Parameter, apply_values, parameters_of
from xtcl.nn import encoder_factory
from xtcl.progress import Progress
from xtcl.tasks import Task, make_task
from xtcl.tasks.fit import fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.link_prediction import hide_links
from xtcl.tasks.logistic import stratified_folds
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.training_data import Split, TrainingData, training_data
from xtcl.training.checkpoint import NullCheckpoints

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class TunedTrial:
    """The values of the parameters of the search space, and the validation score.

    The score is minus infinity if the recipe cannot be trained, as when the loss overflows.
    """

    values: Mapping[str, Any]
    score: float


@dataclass(frozen=True)
class Tuned:
    """The best recipe by its validation score; the first trial is the default recipe.

    The best score of many trials is optimistic, because it was selected. Only data outside of the
    training data measure what the recipe is worth.
    """

    recipe: FitConfig
    best: TunedTrial
    trials: tuple[TunedTrial, ...]

    @property
    def score(self) -> float:
        """The validation score of the best recipe, a fraction."""
        return self.best.score

    @property
    def default_score(self) -> float:
        """The validation score of the default recipe, a fraction."""
        return self.trials[0].score


def tune(
    side: TrainingData,
    task: str,
    encoder: str,
    *,
    trials: int,
    cv_rounds: int,
    seed: int,
    device: torch.device,
    progress: Progress,
    store: Path | None = None,
) -> Tuned:
    """Try `trials` recipes for a task, each scored by `validation_score` over `cv_rounds`.

    With a `store` every trial is kept in that file. A search that was interrupted, or that gets
    more trials, continues from there with the same result as a search without a stop.
    """
    if trials < 1:
        raise UsageError(f"trials={trials} must be at least 1.")
    encoder_factory(encoder, 1, {})  # an unknown name is refused before any work
    known_task = make_task(task)
    default = known_task.recipe(encoder)
    parameters = parameters_of(task, default)
    options = FitOptions(encoder=encoder, seed=seed, device=device)

    def score(recipe: FitConfig) -> float:
        return validation_score(side, known_task, recipe, options, cv_rounds)

    search = _identity(side, task, encoder, cv_rounds, seed, default)
    with open_study(store, search) as study, progress.stage("tuning", trials) as advance:
        advance(min(trials, len(_finished(study))))
        while (number := len(_finished(study))) < trials:
            if number == 0:
                _try_default(study, parameters, score(default))
            else:
                _try_another(study, parameters, _seed_of(seed, number), default, score)
            advance(1)
        tried = tuple(_tuned_trial(trial) for trial in _finished(study)[:trials])
    best = max(tried, key=lambda trial: trial.score)  # the first one of equal scores
    return Tuned(apply_values(default, parameters, best.values), best, tried)


def _try_default(study: optuna.Study, parameters: Sequence[Parameter], score: float) -> None:
    import optuna

    values = {parameter.name: parameter.default for parameter in parameters}
    trial = optuna.create_trial(params=values, distributions=_space(parameters), value=score)
    study.add_trial(trial)


def _try_another(
    study: optuna.Study,
    parameters: Sequence[Parameter],
    seed: int,
    default: FitConfig,
    score: Callable[[FitConfig], float],
) -> None:
    import optuna

    # A new sampler for each trial: a search that continues draws the same values.
    study.sampler = optuna.samplers.TPESampler(seed=seed)
    trial = study.ask(_space(parameters))
    try:
        study.tell(trial, score(apply_values(default, parameters, trial.params)))
    except DataError:  # the default recipe was fitted, so the values are the cause
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)


def _space(parameters: Sequence[Parameter]) -> dict[str, optuna.distributions.BaseDistribution]:
    from optuna import distributions

    return {
        each.name: distributions.CategoricalDistribution(each.values)
        if each.kind == "choice"
        else distributions.FloatDistribution(
            min(each.values), max(each.values), log=each.kind == "factor"
        )
        for each in parameters
    }


def _finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """The trials that ended. One that was killed does not count, and is drawn again."""
    import optuna

    ended = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
    return study.get_trials(deepcopy=False, states=ended)


def _tuned_trial(trial: optuna.trial.FrozenTrial) -> TunedTrial:
    return TunedTrial(dict(trial.params), -math.inf if trial.value is None else trial.value)


def _seed_of(seed: int, number: int) -> int:
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0])


def _identity(
    side: TrainingData, task: str, encoder: str, cv_rounds: int, seed: int, default: FitConfig
) -> str:
    """A hash of everything that decides the result of a search, except the number of trials."""
    described = [xtcl.__version__, task, encoder, cv_rounds, seed, to_builtin(asdict(default))]
    digest = hashlib.sha256(json.dumps([*described, side.graph.fingerprint()]).encode())
    for known in (side.graph.labels, side.non_links):  # not part of the graph's fingerprint
        digest.update(b"-" if known is None else np.ascontiguousarray(known).tobytes())
    return digest.hexdigest()


VALIDATION_FOLDS = 5
_HIDDEN_LINKS_SHARE = 0.2


def validation_score(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions, cv_rounds: int
) -> float:
    """The mean of the task's metric on hidden labels or links over `cv_rounds`, a fraction.

    Relations, sampler, training, choice of the ensemble and head do not read what is hidden. Every
    round has its own seed for the fit too, and the rounds are the same for all recipes.
    """
    scores = []
    for split in validation_splits(side, task.name, cv_rounds, options.seed):
        seen = training_data(side.graph, split, use_labels=True)
        own = replace(options, seed=split.seed or 0, checkpoints=NullCheckpoints())
        answer = fit_task(seen, task, recipe, own).answer
        scores.append(score_test_side(answer, side.graph, split)[task.metric])
    return float(np.mean(scores))


def validation_splits(side: TrainingData, task: str, cv_rounds: int, seed: int) -> Iterator[Split]:
    """Splits of the training data: what a fit reads, and what is hidden from it."""
    if cv_rounds < 1:
        raise UsageError(f"cv_rounds={cv_rounds} must be at least 1.")
    hide = _hide_links if task == "links" else _hide_labels
    for number in range(cv_rounds):
        yield hide(side, number, seed)


def _hide_labels(side: TrainingData, number: int, seed: int) -> NodeSplit:
    known, codes = side.labelled, side.labels[side.labelled]
    _, members = np.unique(codes, return_counts=True)
    folds = min(VALIDATION_FOLDS, int(members[members > 1].sum()))
    if not folds:
        raise DataError(
            f"No class of graph '{side.graph.name}' has two training labels, so that none can be "
            "hidden to score a recipe on: give more labels."
        )
    # After every fold has been hidden once, new folds are drawn.
    hidden = stratified_folds(codes, folds, _shifted_seed(seed, number // folds)) == number % folds
    return NodeSplit(known[~hidden], known[hidden], _shifted_seed(seed, number))


def _hide_links(side: TrainingData, number: int, seed: int) -> LinkSplit:
    own = _shifted_seed(seed, number)
    links = hide_links(side, _HIDDEN_LINKS_SHARE, own)
    (kept, kept_non), (hidden, hidden_non) = links.kept, links.hidden
    return LinkSplit(kept, hidden, kept_non, hidden_non, side.graph.num_nodes, own)


def _shifted_seed(seed: int, number: int) -> int:
    """`seed + number` within the 32 bits that torch reads."""
    return (seed + number) % 2**32


def require_optuna() -> None:
    """Refuse to start a search without Optuna, an optional dependency."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise UsageError(
            'Tuning needs Optuna, which is not installed: pip install "xtcl[tune]".'
        ) from None


@contextmanager
def open_study(store: Path | None, search: str) -> Iterator[optuna.Study]:
    """An Optuna study that maximises; with a `store`, it has the trials of the same `search`.

    The store is an SQLite database: a search that is killed at any moment leaves it readable.
    """
    require_optuna()
    import optuna

    with _quiet(), _storage(store) as storage:
        study = optuna.create_study(
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
    """Silence the log of Optuna."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def _storage(store: Path | None) -> Iterator[optuna.storages.RDBStorage | None]:
    if store is None:
        yield None
        return
    storage = _opened(store)
    try:
        yield storage
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _opened(store: Path) -> optuna.storages.RDBStorage:
    import optuna
    import sqlalchemy

    if not store.parent.is_dir():
        raise UsageError(f"There is no folder '{store.parent}' to keep the search in; make it.")
    address = sqlalchemy.URL.create("sqlite", database=str(store)).render_as_string()
    try:
        return optuna.storages.RDBStorage(address)
    except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.OptunaError, RuntimeError) as broken:
        raise DataError(
            f"'{store}' is no search that can go on ({type(broken).__name__}); remove it to search "
            "anew."
        ) from broken
