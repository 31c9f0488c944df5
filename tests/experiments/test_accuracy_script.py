"""experiments/accuracy.py: which files it writes, and that it goes on."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import accuracy
import pytest
import torch
from small_runs import small_graph

from xtcl.baselines.registry import make_method
from xtcl.experiments.evaluate import evaluate
from xtcl.experiments.provenance import provenance
from xtcl.graph.graph import Graph
from xtcl.tasks.registry import make_task


@pytest.fixture
def one_small_cora(monkeypatch: pytest.MonkeyPatch) -> Graph:
    graph = replace(small_graph(), name="cora")
    monkeypatch.setattr(accuracy, "load_dataset", lambda name, data: graph)
    return graph


def run(out: Path, *options: str) -> int:
    return accuracy.main(["--datasets", "cora", "--device", "cpu", "--out", str(out), *options])


def test_one_file_for_every_cell(
    one_small_cora: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results" / "accuracy"
    assert run(out, "--methods", "logistic,propagation", "--splits", "2") == 0
    cells = [f"cora-{t}-{m}" for t in ("links", "nodes") for m in ("logistic", "propagation")]
    assert sorted(path.stem for path in out.iterdir()) == cells
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 * len(cells)
    assert lines[0].startswith("cora-nodes-logistic split 0: ")

    record = json.loads((out / "cora-nodes-logistic.json").read_text())
    expected = evaluate(one_small_cora, "nodes", make_method("logistic"), splits=2).to_json()
    for name in set(expected) - {"seconds"}:
        assert record[name] == expected[name]
    assert record["config"] == {}
    assert {k: record[k] for k in ("versions", "hardware")} == provenance(torch.device("cpu"))

    assert run(out, "--methods", "logistic", "--splits", "3", "--tasks", "nodes") == 0
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "cora-nodes-logistic split 2"
    ]


def test_the_protocol_says_how_many_splits(one_small_cora: Graph, tmp_path: Path) -> None:
    run(tmp_path, "--methods", "logistic", "--tasks", "links")
    assert json.loads((tmp_path / "cora-links-logistic.json").read_text())["seeds"] == [*range(10)]


def test_a_refused_cell_does_not_stop_the_others(
    one_small_cora: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cora-nodes-logistic.json").write_text('{"dataset": "other"}')
    assert run(tmp_path, "--methods", "logistic", "--splits", "1") == 1
    assert (tmp_path / "cora-links-logistic.json").exists()
    assert "were run with another 'dataset'" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_config_is_the_recipe_of_our_methods(task: str) -> None:
    for encoder in ("gcn", "gat"):
        found: dict[str, Any] = accuracy.config(make_method(f"xtcl-{encoder}"), task)
        assert found == asdict(make_task(task).recipe(encoder))
        assert json.loads(json.dumps(found))
    assert accuracy.config(make_method("gcn"), task) == {}


def test_unknown_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(tmp_path, "--methods", "xtcl-gcn,magic")
    assert "'magic' is none of xtcl-gcn, xtcl-gat" in capsys.readouterr().err
