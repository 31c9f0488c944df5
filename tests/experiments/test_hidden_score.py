"""A recipe's hidden score: what is hidden reaches no part of a fit, and alone is scored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_runs import small_graph, small_split

from xtcl.config import EncoderConfig, FitConfig
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, pair_keys
from xtcl.model_selection import tune as module
from xtcl.model_selection.tune import VALIDATION_FOLDS, validation_score, validation_splits
from xtcl.tasks import make_task
from xtcl.tasks.fit import FitOptions, FittedTask, fit_task
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import Split, TrainingData, training_data

GRAPH = small_graph()


def side_of(task: str) -> TrainingData:
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
    side = side_of("nodes")
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
    side = side_of("links")
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
        list(validation_splits(side_of("links"), "links", 0, 0))


def test_the_last_seed_has_rounds_too() -> None:
    for task in ("nodes", "links"):
        seeds = [split.seed for split in validation_splits(side_of(task), task, 3, 2**32 - 1)]
        assert seeds == [2**32 - 1, 0, 1]


def test_hidden_labels_are_not_there_for_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    side, recipe = side_of("nodes"), small_recipe("nodes")
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
    side = side_of("links")
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
    side = side_of("nodes")
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
    side = side_of("links")
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
    side = side_of(task)
    (split,) = validation_splits(side, task, 1, 0)
    score, fit = fit_with(side, split, task, encoder, monkeypatch)
    other_score, other_fit = fit_with(*other_hidden(side, split), task, encoder, monkeypatch)
    assert other_score != score
    assert other_fit.fitted.embedding.numpy().tobytes() == fit.fitted.embedding.numpy().tobytes()
    assert other_fit.fitted.positives.tobytes() == fit.fitted.positives.tobytes()
    assert other_fit.fitted.plan == fit.fitted.plan
    ours, theirs = fit.head.to_tensors(), other_fit.head.to_tensors()
    assert ours.keys() == theirs.keys()
    assert all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)

    _, control = fit_with(*other_seen(side, split), task, encoder, monkeypatch)
    assert control.fitted.embedding.numpy().tobytes() != fit.fitted.embedding.numpy().tobytes()


def test_a_graph_without_labels_has_no_node_score() -> None:
    bare = Graph.from_arrays(GRAPH.attributes, GRAPH.edges)
    with pytest.raises(DataError, match="has no labels"):
        list(validation_splits(TrainingData(bare), "nodes", 1, 0))
