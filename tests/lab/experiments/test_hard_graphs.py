"""Hard graphs: what each method is given, and the goals beside a plain recomputation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import shrink_recipes, small_graph

from xtcl.baselines import METHODS
from xtcl.baselines.method import XTCLMethod
from xtcl.errors import UsageError
from xtcl.lab.experiments import draw_experiment, hard_graphs
from xtcl.lab.experiments.experiment import Context, Record, Selection, run_missing
from xtcl.lab.experiments.hard_data import SECOND_KIND, two_tasks, with_second_kind
from xtcl.lab.experiments.hard_graphs import (
    HARD_GRAPHS,
    HARD_METHODS,
    NOISY,
    TWO_TASKS,
    WITH_ALL_LINKS,
    HardGraphs,
    given_second_kind,
    hard_graph,
    hard_graph_bars,
)
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.experiments.side_by_side import LOOKS, Bar, SideBySide
from xtcl.relations.relation import Relation

CPU = torch.device("cpu")


def places(selection: Selection) -> list[tuple[str, str, int]]:
    whats = [run.what for run in HardGraphs().runs(selection)]
    return [(what["dataset"], what["method"], what["seed"]) for what in whats]


def test_all_links_are_for_two_tasks_alone() -> None:
    runs = places(Selection())
    usual = [name for name in HARD_METHODS if name in METHODS]
    assert len(HARD_GRAPHS) == 14
    for graph in HARD_GRAPHS:
        methods = [method for each, method, seed in runs if (each, seed) == (graph, 0)]
        assert methods == [*usual, *(WITH_ALL_LINKS if graph == TWO_TASKS else ())]
    assert [seed for *_, seed in runs] == sorted(seed for *_, seed in runs)
    assert {seed for *_, seed in runs} == set(range(5))
    assert set(LOOKS) >= {*HARD_METHODS, *WITH_ALL_LINKS}


def test_the_scope_is_kept() -> None:
    asked = places(Selection(["imdb-2%", "cora-1%"], ["gcn"], splits=1, seed=3))
    assert asked == [("cora-1%", "gcn", 3), ("imdb-2%", "gcn", 3)]
    quick = HardGraphs().runs(Selection(quick=True))
    assert {run.what["dataset"] for run in quick} == {NOISY, TWO_TASKS, "cora-5%"}
    assert {run.what["nodes"] for run in quick} == {500}
    with pytest.raises(UsageError, match="There is no data set 'cora' here"):
        places(Selection(["cora"]))


def context() -> Context:
    return Context(CPU, _graphs={"cora": small_graph(200)})


def test_a_graph_is_that_of_its_split() -> None:
    noisy = [hard_graph(NOISY, seed, context())[0] for seed in (0, 0, 1)]
    assert noisy[0].fingerprint() == noisy[1].fingerprint() != noisy[2].fingerprint()
    assert noisy[0].num_edges == 2 * small_graph(200).num_edges
    made, second = hard_graph(TWO_TASKS, 4, context(), 120)
    assert second is not None
    assert made.fingerprint() == two_tasks(120, seed=4)[0].fingerprint()
    plain, none = hard_graph("cora-5%", 1, context())
    assert plain.fingerprint() == small_graph(200).fingerprint()
    assert none is None


@pytest.mark.parametrize(
    ("name", "labels"), [("cora-1%", 2), ("cora-2%", 4), ("cora-5%", 10), (NOISY, 20)]
)
def test_a_share_of_the_labels_trains(name: str, labels: int) -> None:
    found = HardGraphs().run(name, "logistic", 0).measure(context())
    assert found["train_labels"] == labels  # of 200


@pytest.mark.parametrize("method", ["xtcl-gcn", "sscl"])
def test_those_that_take_relations_get_the_second_kind(method: str) -> None:
    graph, second = two_tasks(100)
    given, system = given_second_kind(graph, second, method)
    assert given is graph
    assert isinstance(system, XTCLMethod)
    assert (system.name, system.title) == (method, METHODS[method].title)
    options = system.options(seed=3)
    names = [r.name if isinstance(r, Relation) else r for r in options.relations]
    assert names[-1] == SECOND_KIND
    assert len(names) == 10
    assert options.seed == 3
    assert (options.strategy is not None) == (method == "sscl")


def test_others_get_the_links_alone_or_both_kinds() -> None:
    graph, second = two_tasks(100)
    assert given_second_kind(graph, second, "gcn")[0] is graph
    for name in WITH_ALL_LINKS:
        given, system = given_second_kind(graph, second, name)
        assert given.fingerprint() == with_second_kind(graph, second).fingerprint()
        assert f"{system.name}-all-links" == name


@pytest.mark.slow
def test_runs_are_made_kept_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_recipes(monkeypatch, epochs=3)
    monkeypatch.setattr(hard_graphs, "QUICK_NODES", 120)
    methods = ["xtcl-gcn", "sscl", "logistic", "propagation", "propagation-all-links"]
    runs = HardGraphs().runs(Selection(methods=methods, splits=1, quick=True))
    file = RecordFile(tmp_path / "hard-graphs.jsonl")
    records = run_missing(runs, file, context(), lambda line: None)
    assert [record.what for record in records] == [run.what for run in runs]
    assert len(records) == 3 * 4 + 1
    recipes = [record.found.get("recipe") for record in records]
    assert sum(recipe is not None for recipe in recipes) == 6
    page = draw_experiment(HardGraphs(), records, tmp_path).read_text()
    assert "SSCL are given the second kind as a relation" in page
    assert "| Propagation + LR (all links) |" in page
    assert "What was asked for" not in page  # it is a quick one
    heard: list[str] = []
    assert run_missing(runs, file, context(), heard.append) == records
    assert heard == ["13 of 13 runs are there already."]


def records(figures: dict[tuple[str, str], list[float]]) -> list[Record]:
    return [
        Record(
            {"dataset": dataset, "method": method, "seed": seed},
            {"figure": figure, "metrics": {}, "seconds": 2.0, "train_labels": 20 + 2 * seed},
            3.0,
            {"xtcl": "9", "code": "abc", "torch": "2"},
            {"gpu": "none", "cpu": "a CPU", "threads": 2},
        )
        for (dataset, method), found in figures.items()
        for seed, figure in enumerate(found)
    ]


FIGURES = {
    (NOISY, "xtcl-gcn"): [81.0, 82.0, 81.5],
    (NOISY, "sscl"): [80.0, 81.5, 79.9],
    (NOISY, "gcn"): [76.0, 78.0, 77.0],
    (NOISY, "propagation"): [78.0, 80.0, 79.5],
    (TWO_TASKS, "xtcl-gcn"): [50.0, 52.0],
    (TWO_TASKS, "gcn"): [30.0, 33.0],
    (TWO_TASKS, "gcn-all-links"): [48.0, 51.0],
}


def test_the_page_has_figures_and_goals(tmp_path: Path) -> None:
    page = draw_experiment(HardGraphs(), records(FIGURES), tmp_path).read_text()
    assert "| cora-noisy | **81.50 ± 0.29** ① (3) | 80.47 ± 0.52 ② (3) |" in page
    assert "| cora-noisy | Cora with as many random links added as it has | 22 |" in page
    assert "| cora-noisy: at least 81 | reached | 81.50 |" in page
    points = np.subtract(FIGURES[NOISY, "xtcl-gcn"], FIGURES[NOISY, "sscl"])
    error = np.std(points, ddof=1) / np.sqrt(3)
    goal = (
        f"| cora-noisy: 1 point above SSCL | reached | {points.mean():+.2f} ± {error:.2f} to SSCL |"
    )
    assert goal in page
    assert "| cora-noisy: 3 points above GCN, Propagation + LR | not reached | +4.50 ± " in page
    assert "| two-tasks: 10 points above SSCL, GCN, Propagation + LR | open: " in page
    assert "; not part of the goal: +1.50 ± 0.50 to GCN (all links) |" in page
    assert (tmp_path / "hard-graphs.png").exists()


@pytest.mark.parametrize(
    ("ours", "reached"), [([60.0, 61.0], True), ([59.4, 61.0], True), ([59.0, 60.5], False)]
)
def test_few_labels_are_judged_by_the_error_of_the_difference(
    ours: list[float], reached: bool
) -> None:
    few = [name for name in HARD_GRAPHS if name.endswith("%")]
    assert len(few) == 12
    figures = {(graph, m): [60.0, 61.0] for graph in few for m in ("sscl", "propagation")}
    figures |= {(graph, "xtcl-gcn"): [62.0, 61.5] for graph in few} | {
        ("imdb-1%", "xtcl-gcn"): ours
    }

    def judged(figures: dict[tuple[str, str], list[float]]) -> Bar:
        beside = SideBySide.of(records(figures), tuple(HARD_GRAPHS), HARD_METHODS, lambda graph: 5)
        return hard_graph_bars(beside)[-1]

    assert judged(figures).reached is reached
    assert judged(figures).figures.startswith(
        "24 of 24" if reached else "22 of 24; not imdb-1% -0.75"
    )
    part = {place: found for place, found in figures.items() if place[0] != "cora-1%"}
    assert judged(part).reached is (None if reached else False)
