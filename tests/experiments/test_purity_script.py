"""lab/scripts/purity.py: shares of right positives, counted pair by pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import small_graph

from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts import purity
from xtcl.model_selection.evaluate import make_split

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
