"""The scripts of the smaller studies: what they measure, and tables drawn from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import small_graph

from xtcl.baselines.method import XTCLGCN
from xtcl.config import FitConfig
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts import penalty, purity, scikit_network, tuned
from xtcl.model_selection.evaluation import make_split, score_method
from xtcl.model_selection.tuning import tune
from xtcl.progress import Progress
from xtcl.tasks.logistic import C_VALUES, fit_logistic
from xtcl.tasks.training_data import training_data

pytestmark = pytest.mark.slow


CPU = torch.device("cpu")


def test_rules_take_strengths_of_the_list_and_the_package_s_own() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=60)
    rows = np.eye(3)[labels] + rng.normal(size=(60, 3))
    found = penalty.c_by_rule(rows, labels, 4, CPU)
    for rule in ("accuracy", "likelihood", "calibrated likelihood"):
        assert found[rule] in C_VALUES
    between = np.sqrt(found["accuracy"] * found["likelihood"])
    assert found["between the two"] == pytest.approx(between)
    assert found["its posterior mean"] == fit_logistic(rows, labels, seed=4).C_


def test_measures_of_held_out_scores() -> None:
    scores, codes = torch.tensor([[0.0, 1.0], [2.0, 0.0]]), torch.tensor([1, 1])
    assert penalty.held_out_accuracy(scores, codes) == 0.5
    expected = np.mean([np.log(np.e / (1 + np.e)), np.log(1 / (1 + np.e**2))])
    assert penalty.plain_likelihood(scores, codes) == pytest.approx(expected, rel=1e-6)


def test_figures_and_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph = replace(small_graph(), name="cora")
    monkeypatch.setattr(penalty, "load_dataset", lambda name, data: graph)
    options = ["--datasets", "cora", "--splits", "2", "--device", "cpu", "--out", str(tmp_path)]
    penalty.main(options)
    record = RecordFile(tmp_path / "penalty.jsonl").read()["cora"]
    for by_rule in record["accuracy"].values():
        assert all(len(figures) == 2 for figures in by_rule.values())
        for rule in ("accuracy", "likelihood", "calibrated likelihood"):
            assert all(np.array(by_rule[rule]) <= np.array(by_rule["oracle"]))
    lines = (tmp_path / "tables.md").read_text().splitlines()
    assert "| rule | xtcl-gcn | hops 0, 1, 2 | pagerank |" in lines
    mean = np.mean(record["accuracy"]["pagerank"]["oracle"])
    assert next(line for line in lines if line.startswith("| oracle")).endswith(f"{mean:.2f} |")


# lab/scripts/purity.py: shares of right positives, counted pair by pair.

GRAPH = small_graph()


def random_positives() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(-1, GRAPH.num_nodes, size=(GRAPH.num_nodes, 6))


def test_share_of_the_same_class() -> None:
    split = make_split(GRAPH, "nodes", 0)
    assert isinstance(split, NodeSplit)
    assert GRAPH.labels is not None
    table = random_positives()
    right = [GRAPH.labels[u] == GRAPH.labels[v] for u in split.test for v in table[u] if v >= 0]
    assert purity.share_of_same_class(table, split, GRAPH) == pytest.approx(np.mean(right))


def test_accuracy_where_positives_are_mostly_right_and_elsewhere() -> None:
    split = make_split(GRAPH, "nodes", 0)
    assert isinstance(split, NodeSplit)
    assert GRAPH.labels is not None
    table = random_positives()
    table[split.test[0]] = -1
    chances = np.random.default_rng(1).random((GRAPH.num_nodes, 3))
    there: list[bool] = []
    elsewhere: list[bool] = []
    for u in split.test:
        positives = [v for v in table[u] if v >= 0]
        right = sum(GRAPH.labels[u] == GRAPH.labels[v] for v in positives)
        group = there if right > len(positives) - right else elsewhere
        group.append(max(range(3), key=lambda c: chances[u, c]) == GRAPH.labels[u])
    found = purity.accuracy_by_positives(table, chances, split, GRAPH)
    assert found == pytest.approx(
        {
            "mostly_right": len(there) / len(split.test),
            "accuracy_there": np.mean(there),
            "accuracy_elsewhere": np.mean(elsewhere),
        }
    )


def test_share_of_test_links() -> None:
    split = make_split(GRAPH, "links", 0)
    assert isinstance(split, LinkSplit)
    links = {frozenset(pair) for pair in split.test.T.tolist()}
    table = random_positives()
    u, v = split.test[:, 0]
    table[u, 0], table[v, 0] = v, u  # found from both ends
    right = [{u, int(v)} in links for u, row in enumerate(table) for v in row if v >= 0]
    assert sum(right) >= 2
    assert purity.share_of_test_links(table, split) == pytest.approx(np.mean(right))


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_measured_twice_it_is_the_same(task: str) -> None:
    found = [purity.measure(GRAPH, task, seed=1, device=torch.device("cpu")) for _ in "ab"]
    assert found[0] == found[1]
    assert next(iter(found[0])) == "purity"
    assert all(0 < share <= 1 for share in found[0].values())
    assert len(found[0]) == (4 if task == "nodes" else 1)


def measured(graph: Graph, task: str, seed: int, device: torch.device) -> dict[str, float]:
    return {"purity": (seed + 1) / 10, "more": seed / 2}


def test_a_further_cell_joins_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(purity, "load_dataset", lambda name, data: GRAPH)
    monkeypatch.setattr(purity, "measure", measured)
    out = tmp_path / "purity.jsonl"
    for dataset in ("cora", "photo"):
        purity.main(["--datasets", dataset, "--tasks", "nodes", "--out", str(out)])
    record = RecordFile(out).read()
    assert list(record) == ["cora-nodes", "photo-nodes"]
    cell = record["cora-nodes"]
    assert (cell["mean"], cell["runs"], cell["seeds"]) == (20.0, [10.0, 20.0, 30.0], [0, 1, 2])
    assert cell["more"] == [0.0, 50.0, 100.0]
    assert {"versions", "hardware"} < set(cell)


# lab/scripts/scikit_network.py: every way answers for all nodes, by the training side alone.

COMPARED = (Path(__file__).parents[3] / "docs" / "compare.md").read_text(encoding="utf-8")


KEPT = Path(__file__).parents[3] / "results" / "scikit-network" / "scikit-network.jsonl"


@pytest.mark.parametrize("name", scikit_network.CLASSIFIERS)
def test_every_way_beats_chance(name: str) -> None:
    graph = block_model(150, num_classes=3, num_attributes=8, homophily=0.9, seed=0)
    split = make_split(graph, "nodes", 0, 0.5)
    predicted = scikit_network.CLASSIFIERS[name](graph, training_data(graph, split), 0)
    assert predicted.shape == (150,)
    assert graph.labels is not None
    assert np.mean((predicted == graph.labels)[split.test]) > 0.4


def test_the_page_has_the_figures_that_were_measured() -> None:
    found = RecordFile(KEPT).read()["cora"]
    for figures in found["ways"].values():
        assert f"{figures['mean']:.2f} ± {figures['stderr']:.2f}" in COMPARED


# lab/scripts/tuned.py: a search on every split, and the score of what it found.


@pytest.fixture
def one_small_cora(monkeypatch: pytest.MonkeyPatch) -> Graph:
    graph = replace(small_graph(), name="cora")
    monkeypatch.setattr(tuned, "load_dataset", lambda name, data: graph)
    return graph


def test_every_split_is_searched_and_scored_on_its_own(
    one_small_cora: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--datasets", "cora", "--tasks", "nodes", "--device", "cpu", "--out", str(tmp_path)]
    options += ["--trials", "2", "--rounds", "1"]
    assert tuned.main([*options, "--splits", "1"]) == 0
    assert tuned.main([*options, "--splits", "2"]) == 0  # goes on
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        f"cora-nodes-tuned-gcn split {seed}" for seed in (0, 1)
    ]
    record = RecordFile(tmp_path / "tuned.jsonl").read()["cora-nodes-tuned-gcn"]
    assert record["search"]["trials"] == 2
    assert {path.name for path in (tmp_path / "searches").iterdir()} == {
        "cora-nodes-gcn-0.db",
        "cora-nodes-gcn-1.db",
    }
    recipes = RecordFile(tmp_path / "recipes.jsonl").read()["cora-nodes-tuned-gcn"]
    for seed, figure in enumerate(record["runs"]):
        split = make_split(one_small_cora, "nodes", seed)
        side = training_data(one_small_cora, split)
        found = tune(
            side, "nodes", "gcn", trials=2, cv_rounds=1, seed=seed, device=CPU, progress=Progress()
        )
        score, _ = score_method(
            one_small_cora, split, XTCLGCN(found.recipe), seed=seed, device=CPU, progress=Progress()
        )
        assert figure == pytest.approx(100 * score, abs=1e-3)
        kept = recipes[str(seed)]
        assert FitConfig.from_dict(kept["recipe"]) == found.recipe
        assert kept["hidden score"] == found.score
        assert kept["hidden score of the default"] == found.default_score
    assert np.isfinite(record["mean"])
