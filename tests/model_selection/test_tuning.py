"""The search for a recipe, and the validation score that it maximises."""

from __future__ import annotations

import logging
import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from small_runs import Recorder, python, shrink_recipes, small_graph, small_split

from xtcl.config import EncoderConfig, FitConfig
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import pair_keys
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.model_selection import tuning as module
from xtcl.model_selection.tuning import (
    VALIDATION_FOLDS,
    Tuned,
    tune,
    validation_score,
    validation_splits,
)
from xtcl.progress import Progress
from xtcl.tasks import make_task
from xtcl.tasks.fit import FittedTask, fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import Split, TrainingData, training_data

pytestmark = pytest.mark.slow


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


class PlantedScores:
    """Stands in for `validation_score`: a made-up score of each recipe, in no time."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, score: Callable[[FitConfig], float] | None = None
    ) -> None:
        self.seen: list[FitConfig] = []
        self.score = score or (
            lambda recipe: 1 / recipe.ensembles[0].encoders[0].training.temperature
        )
        monkeypatch.setattr(module, "validation_score", self.planted)

    def planted(self, side: object, task: object, recipe: FitConfig, *_: object) -> float:
        self.seen.append(recipe)
        return self.score(recipe)


def test_the_default_comes_first_and_the_best_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PlantedScores(monkeypatch)
    tuned = search(trials=8)
    assert planted.seen[0] == DEFAULT
    assert (
        len({str(recipe) for recipe in planted.seen}) == len(planted.seen) == len(tuned.trials) == 8
    )
    scores = [planted.score(recipe) for recipe in planted.seen]
    assert [trial.score for trial in tuned.trials] == scores
    assert tuned.default_score == scores[0]
    assert tuned.score == max(scores) > scores[0]
    assert tuned.recipe == planted.seen[scores.index(max(scores))]
    assert tuned.best is tuned.trials[scores.index(max(scores))]


def test_nothing_better_leaves_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for score in (lambda recipe: float(recipe == DEFAULT), lambda recipe: 0.5):
        PlantedScores(monkeypatch, score)
        tuned = search()
        assert tuned.recipe == DEFAULT
        assert tuned.score == tuned.default_score
    PlantedScores(monkeypatch)
    assert search(trials=1).recipe == DEFAULT


def test_the_sampler_learns_from_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    PlantedScores(monkeypatch)
    places = [trial.values["temperature"] for trial in search(trials=30).trials]
    assert np.mean(np.log(places[20:])) < np.mean(np.log(places[1:10])) - 0.3


def test_a_seed_repeats_and_another_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    PlantedScores(monkeypatch)
    assert search() == search()
    assert search(seed=1).trials[1] != search().trials[1]


def test_global_random_states_do_not_matter_and_do_not_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    PlantedScores(monkeypatch)
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
    planted = PlantedScores(monkeypatch)
    whole = search(trials=5)
    usual = planted.score

    def interrupting(recipe: FitConfig) -> float:
        if len(planted.seen) > done:
            raise KeyboardInterrupt
        return usual(recipe)

    store = tmp_path / "a folder?" / "it's 100%.search"
    store.parent.mkdir()
    planted.seen, planted.score = [], interrupting
    with pytest.raises(KeyboardInterrupt):
        search(trials=5, store=store)
    planted.seen, planted.score = [], usual
    progress = Recorder()
    assert search(trials=5, store=store, progress=progress) == whole
    assert len(planted.seen) == 5 - done  # what was done is not done again
    assert progress.stages == [("tuning", 5, [done] + [1] * (5 - done))]
    assert [path.name for path in store.parent.iterdir()] == [store.name]


KILLED = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_tuning import search
from xtcl.model_selection import tuning as module

scores = iter([0.5, 0.4])
module.validation_score = lambda *_: next(scores, None) or os._exit(9)
search(store=Path(sys.argv[1]))
"""


def test_a_killed_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "killed"
    here = Path(__file__).parent
    ended = python("-c", KILLED, str(store), str(here), str(Path(__file__).parents[1] / "helpers"))
    assert ended.returncode == 9, ended.stderr
    planted = PlantedScores(monkeypatch, lambda recipe: 0.6)
    tuned = search(store=store)
    assert [trial.score for trial in tuned.trials] == [0.5, 0.4, 0.6, 0.6]
    assert len(planted.seen) == 2
    assert tuned.best is tuned.trials[2]


def test_a_finished_search_can_have_more_or_fewer_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = PlantedScores(monkeypatch)
    store = tmp_path / "store"
    search(trials=2, store=store)
    more = search(trials=6, store=store)
    assert len(planted.seen) == 6
    assert more == search(trials=6)
    planted.seen = []
    assert search(trials=3, store=store).trials == more.trials[:3]
    assert planted.seen == []


def test_a_store_of_another_search_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PlantedScores(monkeypatch)
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
    planted = PlantedScores(monkeypatch)
    store = tmp_path / "notes.txt"
    store.write_text("what I did this summer" * 100)
    with pytest.raises(DataError, match=r"notes\.txt' is no search"):
        search(store=store)
    assert store.read_text().startswith("what I did")
    with pytest.raises(UsageError, match="There is no folder"):
        search(store=tmp_path / "nowhere" / "store")
    assert planted.seen == []


def test_a_recipe_that_overflows_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def score(recipe: FitConfig) -> float:
        if len(planted.seen) == 2:
            raise DataError("The loss overflowed.")
        return float(len(planted.seen))

    planted = PlantedScores(monkeypatch, score)
    store = tmp_path / "store"
    tuned = search(store=store)
    assert [trial.score for trial in tuned.trials] == [1.0, -math.inf, 3.0, 4.0]
    assert tuned.score == 4.0
    assert search(store=store) == tuned


def test_a_default_that_cannot_be_fitted_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def score(recipe: FitConfig) -> float:
        raise DataError("There are no links to score.")

    PlantedScores(monkeypatch, score)
    with pytest.raises(DataError, match="no links to score"):
        search()


def test_rubbish_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PlantedScores(monkeypatch)
    for settings, words in (
        ({"trials": 0}, "trials=0"),
        ({"encoder": "gin"}, "no encoder 'gin'"),
        ({"task": "edges"}, "no task 'edges'"),
    ):
        with pytest.raises(UsageError, match=words):
            search(**settings)
    assert planted.seen == []


def test_optuna_says_nothing_and_speaks_again_after(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    PlantedScores(monkeypatch)
    before = optuna.logging.get_verbosity()
    search()
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before
    assert before < logging.ERROR


def test_without_optuna_there_is_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PlantedScores(monkeypatch)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r'pip install "xtcl\[tune\]"'):
        search()
    assert planted.seen == []


def test_importing_the_module_does_not_import_optuna() -> None:
    script = (
        "import sys, xtcl.model_selection.tuning, xtcl.cli.main\nassert 'optuna' not in sys.modules"
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


# A recipe's hidden score: what is hidden reaches no part of a fit, and alone is scored.


def side_of_hidden_score(task: str) -> TrainingData:
    return training_data(GRAPH, small_split(GRAPH, task))


def small_recipe(task: str, encoder: str = "gcn") -> FitConfig:
    def small(member: EncoderConfig) -> EncoderConfig:
        training = replace(member.training, epochs=10)
        return replace(member, encoder=member.encoder | {"width": 8}, training=training)

    return make_task(task).recipe(encoder).map_encoders(small)


def keys(pairs: np.ndarray) -> set[int]:
    return set(pair_keys(pairs, GRAPH.num_nodes).tolist())


def node_hidings(side: TrainingData, rounds: int, seed: int = 0) -> list[NodeSplit]:
    found = list(validation_splits(side, "nodes", rounds, seed))
    assert all(isinstance(split, NodeSplit) for split in found)
    return found  # type: ignore[return-value]


def link_hidings(side: TrainingData, rounds: int, seed: int = 0) -> list[LinkSplit]:
    found = list(validation_splits(side, "links", rounds, seed))
    assert all(isinstance(split, LinkSplit) for split in found)
    return found  # type: ignore[return-value]


class Spy:
    """Stands in for `fit_task`, remembers what it was given, and answers at will."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Any = None) -> None:
        self.answer = answer
        self.sides: list[TrainingData] = []
        self.seeds: list[int] = []
        self.recipes: list[FitConfig] = []
        self.fitted: list[FittedTask] = []
        monkeypatch.setattr(module, "fit_task", self.fit)

    def fit(self, side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions) -> Any:
        self.sides.append(side)
        self.seeds.append(options.seed)
        self.recipes.append(recipe)
        if self.answer is not None:
            return SimpleNamespace(answer=self.answer)
        self.fitted.append(fit_task(side, task, recipe, options))
        return self.fitted[-1]


def test_every_label_is_hidden_once_before_the_cards_are_dealt_anew() -> None:
    side = side_of_hidden_score("nodes")
    splits = node_hidings(side, 2 * VALIDATION_FOLDS)
    for dealt in (splits[:VALIDATION_FOLDS], splits[VALIDATION_FOLDS:]):
        assert sorted(np.concatenate([split.test for split in dealt])) == side.labelled.tolist()
    for split in splits:
        assert not set(split.train) & set(split.test)
        assert sorted([*split.train, *split.test]) == side.labelled.tolist()
        kept = side.labels[split.train]
        assert set(kept) == set(side.labels[side.labelled])  # no class is lost
    assert not np.array_equal(splits[0].test, splits[VALIDATION_FOLDS].test)
    assert len({split.seed for split in splits}) == len(splits)


@pytest.mark.parametrize("counts", [(2,), (2, 1), (3, 1, 1), (1, 2, 2)])
def test_few_labels_still_hide_one_in_every_round(counts: tuple[int, ...]) -> None:
    labels = np.full(GRAPH.num_nodes, -1)
    labels[: sum(counts)] = np.repeat(np.arange(len(counts)), counts)
    side = TrainingData(GRAPH.with_labels(labels))
    for split in node_hidings(side, 7):
        assert len(split.test) >= 1
        assert set(labels[split.train]) == set(range(len(counts)))


def test_without_two_labels_of_a_class_there_is_nothing_to_hide() -> None:
    labels = np.full(GRAPH.num_nodes, -1)
    labels[:3] = [0, 1, 2]
    with pytest.raises(DataError, match="give more labels"):
        list(validation_splits(TrainingData(GRAPH.with_labels(labels)), "nodes", 1, 0))


def test_links_and_non_links_are_hidden_alike() -> None:
    side = side_of_hidden_score("links")
    splits = link_hidings(side, 3)
    for split in splits:
        for kept, hidden, everything in (
            (split.train, split.test, side.graph.edges),
            (split.train_negatives, split.test_negatives, side.negatives),
        ):
            assert hidden.shape[1] == round(0.2 * everything.shape[1])
            assert not keys(kept) & keys(hidden)
            assert keys(kept) | keys(hidden) == keys(everything)
    assert len({tuple(sorted(keys(split.test))) for split in splits}) == 3


def test_no_rounds_are_refused() -> None:
    with pytest.raises(UsageError, match="rounds=0"):
        list(validation_splits(side_of_hidden_score("links"), "links", 0, 0))


def test_the_last_seed_has_rounds_too() -> None:
    for task in ("nodes", "links"):
        seeds = [
            split.seed
            for split in validation_splits(side_of_hidden_score(task), task, 3, 2**32 - 1)
        ]
        assert seeds == [2**32 - 1, 0, 1]


def test_hidden_labels_are_not_there_for_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    side, recipe = side_of_hidden_score("nodes"), small_recipe("nodes")
    spy = Spy(monkeypatch, NodePredictions(np.eye(3)[np.zeros(GRAPH.num_nodes, dtype=int)]))
    validation_score(side, make_task("nodes"), recipe, FitOptions(seed=4), 3)
    splits = node_hidings(side, 3, seed=4)
    assert spy.recipes == [recipe] * 3
    assert spy.seeds == [4, 5, 6]
    for seen, split in zip(spy.sides, splits, strict=True):
        assert seen.labelled.tolist() == split.train.tolist()
        np.testing.assert_array_equal(seen.labels[split.train], side.labels[split.train])
        assert (np.delete(seen.labels, split.train) == -1).all()
        assert seen.graph.fingerprint() == side.graph.fingerprint()


def test_hidden_links_are_not_there_for_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    side = side_of_hidden_score("links")
    spy = Spy(monkeypatch, LinkScores(lambda pairs: pairs.sum(axis=0).astype(float)))
    validation_score(side, make_task("links"), small_recipe("links"), FitOptions(), 3)
    for seen, split in zip(spy.sides, link_hidings(side, 3), strict=True):
        assert keys(seen.graph.edges) == keys(split.train)
        assert keys(seen.negatives) == keys(split.train_negatives)
        assert seen.graph.labels is None


def test_labels_that_link_prediction_was_given_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    side = training_data(GRAPH, small_split(GRAPH, "links"), use_labels=True)
    spy = Spy(monkeypatch, LinkScores(lambda pairs: pairs.sum(axis=0).astype(float)))
    validation_score(side, make_task("links"), small_recipe("links"), FitOptions(), 1)
    np.testing.assert_array_equal(spy.sides[0].labels, GRAPH.labels)


def test_the_score_is_the_mean_over_rounds_of_the_share_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side = side_of_hidden_score("nodes")
    guess = np.random.default_rng(1).integers(3, size=GRAPH.num_nodes)
    Spy(monkeypatch, NodePredictions(np.eye(3)[guess]))
    found = validation_score(side, make_task("nodes"), small_recipe("nodes"), FitOptions(), 4)
    shares = []
    for split in node_hidings(side, 4):
        right = sum(int(guess[node] == side.labels[node]) for node in split.test)
        shares.append(right / len(split.test))
    assert found == pytest.approx(sum(shares) / 4)
    assert 0 < found < 1


def test_the_score_of_links_is_the_chance_to_outscore_a_non_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side = side_of_hidden_score("links")
    Spy(monkeypatch, LinkScores(lambda pairs: np.sin(1.7 * pairs[0] + 2.3 * pairs[1])))
    found = validation_score(side, make_task("links"), small_recipe("links"), FitOptions(), 2)
    areas = []
    for split in link_hidings(side, 2):
        links, non_links = (
            [np.sin(1.7 * u + 2.3 * v) for u, v in pairs.T]
            for pairs in (split.test, split.test_negatives)
        )
        won = [(np.sign(link - non) + 1) / 2 for link in links for non in non_links]
        areas.append(np.mean(won))
    assert found == pytest.approx(np.mean(areas))


def other_hidden(side: TrainingData, split: Split) -> tuple[TrainingData, Split]:
    """Other labels for the hidden nodes, or other pairs for the hidden links and non-links."""
    rng = np.random.default_rng(3)
    if isinstance(split, NodeSplit):
        labels = side.labels.copy()
        labels[split.test] = (labels[split.test] + 1) % 3
        return TrainingData(side.graph.with_labels(labels)), split
    swapped = replace(split, test=split.test_negatives, test_negatives=split.test)
    graph = side.graph.with_edges(np.concatenate([split.train, swapped.test], axis=1))
    non_links = np.concatenate([split.train_negatives, swapped.test_negatives], axis=1)
    return TrainingData(graph, rng.permutation(non_links, axis=1)), swapped


def other_seen(side: TrainingData, split: Split) -> tuple[TrainingData, Split]:
    """One label or link of what a fit sees is another."""
    if isinstance(split, NodeSplit):
        labels = side.labels.copy()
        labels[split.train[0]] = (labels[split.train[0]] + 1) % 3
        return TrainingData(side.graph.with_labels(labels)), split
    changed = replace(split, train=split.train[:, 1:])
    edges = np.concatenate([changed.train, split.test], axis=1)
    return TrainingData(side.graph.with_edges(edges), side.non_links), changed


def fit_with(
    side: TrainingData, split: Split, task: str, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[float, FittedTask]:
    """The hidden score of one given hiding, and the fit behind it."""

    def only(*_: object) -> Iterator[Split]:
        yield split

    monkeypatch.setattr(module, "validation_splits", only)
    spy = Spy(monkeypatch)
    options = FitOptions(encoder=encoder)
    score = validation_score(side, make_task(task), small_recipe(task, encoder), options, 1)
    (fitted,) = spy.fitted
    return score, fitted


@pytest.mark.parametrize(
    ("task", "encoder"), [("nodes", "gcn"), ("links", "gcn"), ("nodes", "gat")]
)
def test_other_hidden_data_change_the_score_and_nothing_of_the_fit(
    task: str, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = side_of_hidden_score(task)
    (split,) = validation_splits(side, task, 1, 0)
    score, fit = fit_with(side, split, task, encoder, monkeypatch)
    other_score, other_fit = fit_with(*other_hidden(side, split), task, encoder, monkeypatch)
    assert other_score != score
    assert other_fit.fitted.embedding.numpy().tobytes() == fit.fitted.embedding.numpy().tobytes()
    assert other_fit.fitted.positives.tobytes() == fit.fitted.positives.tobytes()
    assert other_fit.fitted.ensemble == fit.fitted.ensemble
    ours, theirs = fit.head.to_tensors(), other_fit.head.to_tensors()
    assert ours.keys() == theirs.keys()
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)

    _, control = fit_with(*other_seen(side, split), task, encoder, monkeypatch)
    assert control.fitted.embedding.numpy().tobytes() != fit.fitted.embedding.numpy().tobytes()


def test_a_graph_without_labels_has_no_node_score() -> None:
    bare = Graph.from_arrays(GRAPH.attributes, GRAPH.edges)
    with pytest.raises(DataError, match="has no labels"):
        list(validation_splits(TrainingData(bare), "nodes", 1, 0))
