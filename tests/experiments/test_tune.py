"""The search for a recipe: the default first, the best kept, and a killed search goes on."""

from __future__ import annotations

import logging
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from small_runs import Recorder, python, shrink_recipes, small_graph, small_split

from xtcl.config import FitConfig
from xtcl.errors import DataError, UsageError
from xtcl.model_selection import tune as module
from xtcl.model_selection.tune import Tuned, tune, validation_score
from xtcl.progress import Progress
from xtcl.tasks import make_task
from xtcl.tasks.fit import FitOptions
from xtcl.tasks.training_data import TrainingData, training_data

GRAPH = small_graph()
DEFAULT = make_task("nodes").recipe("gcn")
CPU = torch.device("cpu")


def side_of(task: str = "nodes") -> TrainingData:
    return training_data(GRAPH, small_split(GRAPH, task))


def search(**settings: Any) -> Tuned:
    chosen: dict[str, Any] = {
        "trials": 4,
        "cv_rounds": 2,
        "seed": 0,
        "device": CPU,
        "progress": Progress(),
        **settings,
    }
    side, task = chosen.pop("side", side_of()), chosen.pop("task", "nodes")
    return tune(side, task, chosen.pop("encoder", "gcn"), **chosen)


class Judge:
    """Stands in for `validation_score`: a made-up score of each recipe, in no time."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, score: Callable[[FitConfig], float] | None = None
    ) -> None:
        self.seen: list[FitConfig] = []
        self.score = score or (lambda recipe: 1 / recipe.plans[0].members[0].training.temperature)
        monkeypatch.setattr(module, "validation_score", self.judge)

    def judge(self, side: object, task: object, recipe: FitConfig, *_: object) -> float:
        self.seen.append(recipe)
        return self.score(recipe)


def test_the_default_comes_first_and_the_best_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge(monkeypatch)
    tuned = search(trials=8)
    assert judge.seen[0] == DEFAULT
    assert len({str(recipe) for recipe in judge.seen}) == len(judge.seen) == len(tuned.trials) == 8
    scores = [judge.score(recipe) for recipe in judge.seen]
    assert [trial.score for trial in tuned.trials] == scores
    assert tuned.default_score == scores[0]
    assert tuned.score == max(scores) > scores[0]
    assert tuned.recipe == judge.seen[scores.index(max(scores))]
    assert tuned.best is tuned.trials[scores.index(max(scores))]


def test_nothing_better_leaves_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for score in (lambda recipe: float(recipe == DEFAULT), lambda recipe: 0.5):
        Judge(monkeypatch, score)
        tuned = search()
        assert tuned.recipe == DEFAULT
        assert tuned.score == tuned.default_score
    Judge(monkeypatch)
    assert search(trials=1).recipe == DEFAULT


def test_the_sampler_learns_from_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    Judge(monkeypatch)
    places = [trial.values["temperature"] for trial in search(trials=30).trials]
    assert np.mean(np.log(places[20:])) < np.mean(np.log(places[1:10])) - 0.3


def test_a_seed_repeats_and_another_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    Judge(monkeypatch)
    assert search() == search()
    assert search(seed=1).trials[1] != search().trials[1]


def test_global_random_states_do_not_matter_and_do_not_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Judge(monkeypatch)
    found = search()
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index] # noqa: NPY002
    assert search() == found
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index] # noqa: NPY002


@pytest.mark.parametrize("done", [0, 1, 3])
def test_an_interrupted_search_finds_what_it_would_have_found(
    done: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge(monkeypatch)
    whole = search(trials=5)
    usual = judge.score

    def interrupting(recipe: FitConfig) -> float:
        if len(judge.seen) > done:
            raise KeyboardInterrupt
        return usual(recipe)

    store = tmp_path / "a folder?" / "it's 100%.search"
    store.parent.mkdir()
    judge.seen, judge.score = [], interrupting
    with pytest.raises(KeyboardInterrupt):
        search(trials=5, store=store)
    judge.seen, judge.score = [], usual
    progress = Recorder()
    assert search(trials=5, store=store, progress=progress) == whole
    assert len(judge.seen) == 5 - done  # what was done is not done again
    assert progress.stages == [("tuning", 5, [done] + [1] * (5 - done))]
    assert [path.name for path in store.parent.iterdir()] == [store.name]


KILLED = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_tune import search
from xtcl.model_selection import tune as module

scores = iter([0.5, 0.4])
module.validation_score = lambda *_: next(scores, None) or os._exit(9)
search(store=Path(sys.argv[1]))
"""


def test_a_killed_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "killed"
    here = Path(__file__).parent
    ended = python("-c", KILLED, str(store), str(here), str(here.parent))
    assert ended.returncode == 9, ended.stderr
    judge = Judge(monkeypatch, lambda recipe: 0.6)
    tuned = search(store=store)
    assert [trial.score for trial in tuned.trials] == [0.5, 0.4, 0.6, 0.6]
    assert len(judge.seen) == 2
    assert tuned.best is tuned.trials[2]


def test_a_finished_search_can_have_more_or_fewer_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge(monkeypatch)
    store = tmp_path / "store"
    search(trials=2, store=store)
    more = search(trials=6, store=store)
    assert len(judge.seen) == 6
    assert more == search(trials=6)
    judge.seen = []
    assert search(trials=3, store=store).trials == more.trials[:3]
    assert judge.seen == []


def test_a_store_of_another_search_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Judge(monkeypatch)
    store = tmp_path / "store"
    search(trials=2, store=store)
    side = side_of()
    labels = side.labels.copy()
    labels[side.labelled[0]] = (labels[side.labelled[0]] + 1) % 3
    others: list[dict[str, Any]] = [
        {"seed": 1},
        {"cv_rounds": 3},
        {"encoder": "gat"},
        {"side": side_of("links"), "task": "links"},
        {"side": TrainingData(side.graph.with_labels(labels))},
    ]
    for other in others:
        with pytest.raises(UsageError, match="holds another search"):
            search(**({"store": store} | other))
    assert len(search(trials=2, store=store).trials) == 2


def test_a_store_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge(monkeypatch)
    store = tmp_path / "notes.txt"
    store.write_text("what I did this summer" * 100)
    with pytest.raises(DataError, match=r"notes\.txt' is no search"):
        search(store=store)
    assert store.read_text().startswith("what I did")
    with pytest.raises(UsageError, match="There is no folder"):
        search(store=tmp_path / "nowhere" / "store")
    assert judge.seen == []


def test_a_recipe_that_overflows_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(recipe: FitConfig) -> float:
        if len(judge.seen) == 2:
            raise DataError("The loss overflowed.")
        return float(len(judge.seen))

    judge = Judge(monkeypatch, score)
    store = tmp_path / "store"
    tuned = search(store=store)
    assert [trial.score for trial in tuned.trials] == [1.0, -math.inf, 3.0, 4.0]
    assert tuned.score == 4.0
    assert search(store=store) == tuned


def test_a_default_that_cannot_be_fitted_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def score(recipe: FitConfig) -> float:
        raise DataError("There are no links to judge.")

    Judge(monkeypatch, score)
    with pytest.raises(DataError, match="no links to judge"):
        search()


def test_rubbish_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge(monkeypatch)
    for settings, words in (
        ({"trials": 0}, "trials=0"),
        ({"encoder": "gin"}, "no encoder 'gin'"),
        ({"task": "edges"}, "no task 'edges'"),
    ):
        with pytest.raises(UsageError, match=words):
            search(**settings)
    assert judge.seen == []


def test_optuna_says_nothing_and_speaks_again_after(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    Judge(monkeypatch)
    before = optuna.logging.get_verbosity()
    search()
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before
    assert before < logging.ERROR


def test_without_optuna_there_is_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge(monkeypatch)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r'pip install "xtcl\[tune\]"'):
        search()
    assert judge.seen == []


def test_importing_the_module_does_not_import_optuna() -> None:
    script = (
        "import sys, xtcl.model_selection.tune, xtcl.cli.main; assert 'optuna' not in sys.modules"
    )
    done = python("-c", script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("task", "encoder", "rounds"), [("nodes", "gcn", 2), ("links", "gat", 1)])
def test_with_true_fits(
    task: str, encoder: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_recipes(monkeypatch)
    side = side_of(task)
    tuned = search(side=side, task=task, encoder=encoder, trials=2, cv_rounds=rounds, seed=3)
    options = FitOptions(encoder=encoder, seed=3)
    known = make_task(task)
    default = validation_score(side, known, known.recipe(encoder), options, rounds)
    assert tuned.default_score == default
    assert tuned.score == validation_score(side, known, tuned.recipe, options, rounds) >= default
    assert all(0 <= trial.score <= 1 for trial in tuned.trials)
