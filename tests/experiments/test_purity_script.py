"""experiments/purity.py: shares of right positives, counted pair by pair."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import purity
import pytest
import torch
from small_runs import small_graph

from xtcl.experiments.evaluate import make_split
from xtcl.graph.link_split import LinkSplit
from xtcl.graph.node_split import NodeSplit

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
def test_measured_on_the_training_side(task: str) -> None:
    found = [purity.measure(GRAPH, task, seed=1, device=torch.device("cpu")) for _ in "ab"]
    assert found[0] == found[1]
    assert 0 < found[0] <= 1


def test_a_further_cell_joins_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(purity, "load_dataset", lambda name, data: GRAPH)
    monkeypatch.setattr(purity, "measure", lambda graph, task, seed, device: (seed + 1) / 10)
    out = tmp_path / "purity.json"
    for dataset in ("cora", "photo"):
        purity.main(["--datasets", dataset, "--tasks", "nodes", "--out", str(out)])
    record = json.loads(out.read_text())
    assert list(record) == ["nodes"]
    assert list(record["nodes"]) == ["cora", "photo"]
    cell = record["nodes"]["cora"]
    assert (cell["mean"], cell["runs"], cell["seeds"]) == (20.0, [10.0, 20.0, 30.0], [0, 1, 2])
    assert {"versions", "hardware"} < set(cell)
