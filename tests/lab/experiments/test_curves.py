"""The experiments over a growing quantity, as measurements and as pages."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import shrink_recipes, small_graph

from xtcl.baselines import make_method
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit, node_split
from xtcl.lab.experiments import draw_experiment
from xtcl.lab.experiments import learning_curve as runs
from xtcl.lab.experiments.class_count import ClassCount
from xtcl.lab.experiments.drawing import mean_and_error
from xtcl.lab.experiments.experiment import Context, Plain, Record, Selection
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
from xtcl.model_selection.evaluation import evaluate
from xtcl.report.charts import DASH
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


@pytest.mark.slow
def test_a_node_run_scores_both_sides() -> None:
    found = run_node_method(GRAPH, node_split(GRAPH, seed=4), "logistic", 4, bench())
    figure = evaluate(GRAPH, "nodes", make_method("logistic"), splits=1, seed=4).runs[0]
    assert found["figure"] == figure
    assert 50 < found["train"] <= 100
    assert found["seconds"] > 0


@pytest.mark.slow
def test_the_ceiling_is_handed_the_true_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_recipes(monkeypatch)
    found = run_node_method(GRAPH, node_split(GRAPH, seed=4), "ceiling-scl", 4, bench())
    assert 30 < found["figure"] <= 100


# Learning curves
@pytest.mark.slow
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


@pytest.mark.slow
def test_every_class_has_a_training_node_where_there_is_room() -> None:
    assert GRAPH.labels is not None
    for seed in range(20):
        train = growing_split(GRAPH, 2, seed).train  # four nodes, three classes
        assert set(GRAPH.labels[train]) == {0, 1, 2}


@pytest.mark.slow
def test_a_learning_curve_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_recipes(monkeypatch)
    experiment = LearningCurve()
    wanted = experiment.runs(Selection(quick=True))
    assert len(wanted) == 3 * 6
    for run in wanted[:6]:
        found = run.measure(bench())
        assert 20 < found["figure"] <= 100, run.key


# Classes
@pytest.mark.slow
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
@pytest.mark.slow
def test_perturbed_labels_are_what_is_fitted_and_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watched(monkeypatch, "perturbation")
    information = [
        PerturbedLabels().run("vote", number, "gcn", 0, 1).measure(bench())["information"]
        for number in (0, 150)
    ]
    assert GRAPH.labels is not None
    before, after = (TrainingData(graph).labels for graph, _ in seen)
    np.testing.assert_array_equal(before, GRAPH.labels)
    assert (after != GRAPH.labels).any()
    assert information[0] == label_information(GRAPH.labels, above_pairs(GRAPH, RELATION))
    assert information[1] > information[0]
    assert len(PerturbedLabels().runs(Selection())) == 2 * 6 * 4 * 3 * 5


# Training time
@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_time_is_measured_for_both_systems(system: str) -> None:
    if system == "naive-xgboost":
        pytest.importorskip("xgboost")
    found = TrainingTime().run(300, system, 0).measure(Context(CPU))
    assert 0 < found["seconds"] < 60


@pytest.mark.slow
def test_both_systems_get_pairs_that_grow_as_the_square() -> None:
    sizes = [len(pairs_of(size, 0, CPU)[1][0].queries) for size in (200, 400)]
    assert sizes[0] == pytest.approx(100, abs=25)
    assert sizes[1] == pytest.approx(200, abs=35)


@pytest.mark.slow
def test_what_node_run_takes_for_a_classifier() -> None:
    with pytest.raises(Exception, match="Only a node classifier"):
        runs.training_accuracy(object(), None)  # type: ignore[arg-type]


# Pages of the experiments over a growing quantity, from records made by hand.


def record(found: dict[str, Any], **what: Any) -> Record:
    return Record(what, found, 1.0, {}, {})


def test_learning_curves(tmp_path: Path) -> None:
    records = [
        record({"figure": 80.0 + seed}, dataset="cora", percent=p, method="gcn", seed=seed)
        for p in (5, 10)
        for seed in (0, 1)
    ]
    records.append(record({"figure": 90.0}, dataset="cora", percent=5, method="sscl", seed=0))
    page = draw_experiment(LearningCurve(), records, tmp_path).read_text()
    assert f"| 5 | 80.50 ± 0.50 | 90.00 |\n| 10 | 80.50 ± 0.50 | {DASH} |" in page
    assert (tmp_path / "learning-curve.svg").exists()


def test_classes(tmp_path: Path) -> None:
    records = [
        record({"figure": 70.0 + c}, classes=c, method=method, seed=0)
        for c in (3, 7)
        for method in ("gcn", "xtcl-gcn")
    ]
    page = draw_experiment(ClassCount(), records, tmp_path).read_text()
    assert "| classes | GCN | XTCL (GCN) |" in page
    assert "| 7 | 77.00 | 77.00 |" in page
    assert "91.7 with 3" in page


def test_perturbation(tmp_path: Path) -> None:
    records = [
        record(
            {"figure": 70.0, "train": 95.0, "information": 1e-4 * (1 + graph)},
            rule=rule,
            number=500,
            method="gcn",
            graph=graph,
            seed=seed,
        )
        for rule in ("copy", "vote")
        for graph in (0, 1)
        for seed in range(3)
    ]
    page = draw_experiment(PerturbedLabels(), records, tmp_path).read_text()
    assert "| 500 | 1.50 |" in page  # each graph counts once
    assert "| 500 | 70.00 ± 0.00 |" in page
    assert "| 500 | 25.00 ± 0.00 |" in page
    assert page.index("the paper's rule") < page.index("our rule")


def test_time_and_its_growth(tmp_path: Path) -> None:
    records = [
        record({"seconds": factor * size**2}, size=size, system=system, repeat=0)
        for system, factor in (("xgsampler", 1e-7), ("naive-xgboost", 4e-7))
        for size in (1000, 2000, 4000)
    ]
    page = draw_experiment(TrainingTime(), records, tmp_path).read_text()
    assert "| XGSampler | 2.00 (2.00 to 2.00) |" in page
    assert "75 % less time" in page
    alone = draw_experiment(TrainingTime(), records[:2], tmp_path).read_text()
    assert f"| XGSampler | {DASH} |" in alone  # two points fit any line
    assert "less time, averaged" not in alone


def test_one_value_has_no_error() -> None:
    assert mean_and_error([2.0]) == (2.0, None)
    assert mean_and_error([1.0, 3.0]) == pytest.approx((2.0, 1.0))
