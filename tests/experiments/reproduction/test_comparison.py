"""Tables 1 and 2 as measurements."""

from __future__ import annotations

import pytest
import torch
from small_runs import small_graph

from xtcl.baselines import METHODS, make_method
from xtcl.errors import UsageError
from xtcl.lab.experiments import DRAWERS, EXPERIMENTS, make_experiment
from xtcl.lab.experiments.comparison import (
    ORDER,
    PAPER_FIGURES,
    TABLE_DATASETS,
    LinkTable,
    NodeTable,
    printed,
)
from xtcl.lab.experiments.experiment import Context, Selection
from xtcl.lab.experiments.statistics import PAPER_COUNTS as COUNTS
from xtcl.lab.experiments.statistics import STATISTICS_DATASETS, DatasetStatistics
from xtcl.model_selection.evaluate import evaluate

CPU = torch.device("cpu")


def test_every_system_that_knows_the_task_is_compared() -> None:
    for table in (NodeTable(), LinkTable()):
        runs = table.runs(Selection())
        compared = {run.what["method"] for run in runs}
        assert compared == {
            name
            for name, kind in METHODS.items()
            if table.task in kind.tasks and name != "ceiling-scl"
        }
        assert {run.what["dataset"] for run in runs} == set(TABLE_DATASETS)
        assert {run.what["seed"] for run in runs} == {0, 1, 2, 3, 4}
        assert len({run.key for run in runs}) == len(runs) == 5 * 5 * len(compared)


def test_a_batch_cut_short_has_all_systems_on_fewer_splits() -> None:
    runs = NodeTable().runs(Selection(datasets=["cora"]))
    systems = len({run.what["method"] for run in runs})
    assert [run.what["seed"] for run in runs[: systems + 1]] == [0] * systems + [1]


def test_the_scope_is_kept() -> None:
    runs = LinkTable().runs(Selection(["photo", "cora"], ["gat", "gcn"], splits=1))
    places = [tuple(run.what.values()) for run in runs]
    assert places == [(d, m, 0) for d in ("cora", "photo") for m in ("gcn", "gat")]
    quick = NodeTable().runs(Selection(quick=True))
    assert {run.what["dataset"] for run in quick} == {"cora"}
    assert {run.what["seed"] for run in quick} == {0, 1}
    asked = NodeTable().runs(Selection(datasets=["photo"], splits=3, quick=True))
    assert {(run.what["dataset"], run.what["seed"]) for run in asked} == {
        ("photo", seed) for seed in range(3)
    }


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UsageError, match="There is no data set 'core' here"):
        NodeTable().runs(Selection(datasets=["core"]))
    with pytest.raises(UsageError, match="There is no method 'gnc' here"):
        NodeTable().runs(Selection(methods=["gnc"]))
    with pytest.raises(UsageError, match=r"There is no experiment 'table-node'.*table-nodes"):
        make_experiment("table-node")


@pytest.mark.parametrize("table", [NodeTable(), LinkTable()])
def test_a_run_measures_what_evaluate_does(table: NodeTable | LinkTable) -> None:
    graph = small_graph()
    bench = Context(CPU, _graphs={"cora": graph})
    found = table.run("cora", "logistic", 3).measure(bench)
    result = evaluate(graph, table.task, make_method("logistic"), splits=1, seed=3)
    assert found["figure"] == result.runs[0]
    assert found["seconds"] >= 0


def test_the_printed_tables_name_systems_in_order() -> None:
    for task, rows in PAPER_FIGURES.items():
        assert set(rows) <= set(ORDER)
        assert all(len(row) == len(TABLE_DATASETS) for row in rows.values())
        assert printed(task, "xtcl-gcn", "cora") == rows["xtcl-gcn"][0]
        assert printed(task, "logistic", "cora") is None
        assert printed(task, "gcn", "karate") is None


def test_statistics_count_edges_both_ways() -> None:
    graph = small_graph()
    (run,) = DatasetStatistics().runs(Selection(quick=True))
    found = run.measure(Context(CPU, _graphs={"cora": graph}))
    assert found == {
        "nodes": 80,
        "edges": graph.adjacency.nnz,
        "classes": 3,
        "attributes": 16,
    }
    assert [run.key for run in DatasetStatistics().runs(Selection())] == list(STATISTICS_DATASETS)
    assert set(COUNTS) == set(STATISTICS_DATASETS)


def test_cora_is_as_printed() -> None:
    found = DatasetStatistics().run("cora").measure(Context(CPU))
    assert tuple(found.values()) == COUNTS["cora"]


def test_every_experiment_can_be_drawn() -> None:
    assert DRAWERS.keys() == EXPERIMENTS.keys()
