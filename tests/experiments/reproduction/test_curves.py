"""The experiments over a growing quantity, as measurements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from small_runs import shrink_recipes, small_graph

from xtcl.baselines import make_method
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit, node_split
from xtcl.lab.experiments import learning_curve as runs
from xtcl.lab.experiments.class_count import ClassCount
from xtcl.lab.experiments.experiment import Context, Plain, Selection
from xtcl.lab.experiments.learning_curve import (
    PERCENT,
    LearningCurve,
    growing_split,
    run_node_method,
)
from xtcl.lab.experiments.perturbation import (
    RELATION,
    PerturbedLabels,
    above_pairs,
    label_information,
)
from xtcl.lab.experiments.training_time import SYSTEMS, TrainingTime, pairs_of
from xtcl.model_selection.evaluate import evaluate
from xtcl.tasks.training_data import TrainingData

CPU = torch.device("cpu")
GRAPH = small_graph(200)


def bench() -> Context:
    return Context(CPU, _graphs={"cora": GRAPH})


def watched(monkeypatch: pytest.MonkeyPatch, module: str) -> list[tuple[Graph, NodeSplit]]:
    """Graphs and splits that an experiment asks to have measured, in place of measuring."""
    seen: list[tuple[Graph, NodeSplit]] = []

    def note(graph: Graph, split: NodeSplit, method: str, seed: int, bench: Context) -> Plain:
        seen.append((graph, split))
        return {"figure": 1.0}

    monkeypatch.setattr(f"xtcl.lab.experiments.{module}.run_node_method", note)
    return seen


def test_a_node_run_scores_both_sides() -> None:
    found = run_node_method(GRAPH, node_split(GRAPH, seed=4), "logistic", 4, bench())
    figure = evaluate(GRAPH, "nodes", make_method("logistic"), splits=1, seed=4).runs[0]
    assert found["figure"] == figure
    assert 50 < found["train"] <= 100
    assert found["seconds"] > 0


def test_the_ceiling_is_handed_the_true_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_recipes(monkeypatch)
    found = run_node_method(GRAPH, node_split(GRAPH, seed=4), "ceiling-scl", 4, bench())
    assert 30 < found["figure"] <= 100


# Learning curves


def test_training_sets_grow_and_the_test_set_stays() -> None:
    splits = [growing_split(GRAPH, percent, seed=2) for percent in PERCENT]
    for fewer, more in itertools.pairwise(splits):
        assert set(fewer.train) < set(more.train)
        np.testing.assert_array_equal(fewer.test, more.test)
    assert len(splits[-1].test) == 40
    assert [len(split.train) for split in splits] == [2, 10, 20, 40, 80, 120, 160]
    assert not set(splits[-1].train) & set(splits[-1].test)
    other = growing_split(GRAPH, 10, seed=3)
    assert set(other.test) != set(splits[0].test)


def test_every_class_has_a_training_node_where_there_is_room() -> None:
    assert GRAPH.labels is not None
    for seed in range(20):
        train = growing_split(GRAPH, 2, seed).train  # four nodes, three classes
        assert set(GRAPH.labels[train]) == {0, 1, 2}


def test_a_learning_curve_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_recipes(monkeypatch)
    experiment = LearningCurve()
    wanted = experiment.runs(Selection(quick=True))
    assert len(wanted) == 3 * 6
    for run in wanted[:6]:
        found = run.measure(bench())
        assert 20 < found["figure"] <= 100, run.key


# Classes


def test_fewer_classes_are_measured_on_their_own_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(monkeypatch, "class_count")
    assert ClassCount().run(2, "gcn", 5).measure(bench()) == {"figure": 1.0}
    ((graph, split),) = seen
    assert graph.num_classes == 2
    assert len(split.train) + len(split.test) == graph.num_nodes < GRAPH.num_nodes
    assert [run.key for run in ClassCount().runs(Selection(quick=True))] == [
        f"{classes}-{method}-0" for classes in (3, 5, 7) for method in ("gcn", "xtcl-gcn")
    ]


# Perturbed labels


def test_perturbed_labels_are_what_is_fitted_and_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(monkeypatch, "perturbation")
    told = [
        PerturbedLabels().run("vote", number, "gcn", 0, 1).measure(bench())["information"]
        for number in (0, 150)
    ]
    assert GRAPH.labels is not None
    before, after = (TrainingData(graph).labels for graph, _ in seen)
    np.testing.assert_array_equal(before, GRAPH.labels)
    assert (after != GRAPH.labels).any()
    assert told[0] == label_information(GRAPH.labels, above_pairs(GRAPH, RELATION))
    assert told[1] > told[0]
    assert len(PerturbedLabels().runs(Selection())) == 2 * 6 * 4 * 3 * 5


# Training time


@pytest.mark.parametrize("system", SYSTEMS)
def test_time_is_measured_for_both_systems(system: str) -> None:
    if system == "naive-xgboost":
        pytest.importorskip("xgboost")
    found = TrainingTime().run(300, system, 0).measure(Context(CPU))
    assert 0 < found["seconds"] < 60


def test_both_systems_get_pairs_that_grow_as_the_square() -> None:
    sizes = [len(pairs_of(size, 0, CPU)[1][0].queries) for size in (200, 400)]
    assert sizes[0] == pytest.approx(100, abs=25)
    assert sizes[1] == pytest.approx(200, abs=35)


def test_what_node_run_takes_for_a_classifier() -> None:
    with pytest.raises(Exception, match="Only a node classifier"):
        runs.training_accuracy(object(), None)  # type: ignore[arg-type]
