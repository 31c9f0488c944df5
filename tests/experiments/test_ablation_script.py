"""lab/scripts/ablation.py: its rows, the files it writes, and the tables drawn from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import shrink_recipes, small_graph

from xtcl.code_digest import source_digest
from xtcl.config import FitConfig
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit
from xtcl.lab.experiments.provenance import provenance
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts import ablation, kept
from xtcl.lab.scripts.ablation_rows import DEFAULT, ENCODER, ROWS, Row
from xtcl.lab.scripts.ablation_tables import page
from xtcl.lab.scripts.kept import conditions
from xtcl.model_selection.evaluate import make_split
from xtcl.progress import Progress
from xtcl.tasks import make_task
from xtcl.tasks.training_data import training_data

CPU = torch.device("cpu")
ALL = [(task, row) for task, rows in ROWS.items() for row in rows]


def default(task: str) -> FitConfig:
    return make_task(task).recipe(ENCODER)


@pytest.fixture
def one_small_cora(monkeypatch: pytest.MonkeyPatch) -> Graph:
    graph = replace(small_graph(), name="cora")
    monkeypatch.setattr(ablation, "load_dataset", lambda name, data: graph)
    shrink_recipes(monkeypatch, 2)
    return graph


def run(out: Path, *options: str) -> int:
    return ablation.main(["--datasets", "cora", "--device", "cpu", "--out", str(out), *options])


@pytest.mark.parametrize(("task", "row"), ALL, ids=lambda item: getattr(item, "name", item))
def test_every_row_changes_something_that_can_be_run(task: str, row: Row) -> None:
    recipe = row.change(default(task)).validated()
    changed = recipe != default(task) or row.fit is not DEFAULT.fit
    assert changed == (row is not DEFAULT)


def test_no_row_twice() -> None:
    for task, rows in ROWS.items():
        recipes = [(row.change(default(task)), row.fit) for row in rows]
        assert all(recipes.count(recipe) == 1 for recipe in recipes)
        assert len({row.name for row in rows}) == len({row.title for row in rows}) == len(rows)


def test_changes_reach_the_member_they_name() -> None:
    rows = {row.name: row.change(default("nodes")).ensembles[0] for row in ROWS["nodes"]}
    plan = default("nodes").ensembles[0]
    linear, deep = plan.encoders
    assert rows["linear-only"].encoders == (linear,)
    assert rows["deep-only"].encoders == (deep,)
    assert rows["one-hop"].encoders[0].encoder == linear.encoder | {"hops": 1, "restart": 0.0}
    assert rows["one-hop"].encoders[1] == deep
    assert rows["long"].encoders[1].training.epochs == 4 * deep.training.epochs
    assert [m.encoder["width"] for m in rows["width-256"].encoders] == [256, 256]
    three = rows["three-seeds"].encoders
    assert three[3] == deep
    assert sum(m.weight**2 for m in three[:3]) == pytest.approx(linear.weight**2)


def test_the_code_of_the_scripts_is_a_condition() -> None:
    found = conditions(CPU)
    assert found["versions"].pop("scripts") == source_digest(
        Path(kept.__file__).parent.glob("*.py")
    )
    assert found == provenance(CPU)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_all_rows_on_splits_of_exploration(
    one_small_cora: Graph, tmp_path: Path, task: str
) -> None:
    assert run(tmp_path, "--task", task, "--splits", "1") == 0
    for row in ROWS[task]:
        record = RecordFile(tmp_path / "ablation.jsonl").read()[f"cora-{task}-{row.name}"]
        assert record["seeds"] == [1000]
        assert record["method"] == row.name
        assert record["fit"] == row.fit.__name__
        assert {k: record[k] for k in ("versions", "hardware")} == conditions(CPU)
        shares = RecordFile(tmp_path / "purity.jsonl").read()[f"cora-{task}-{row.name}"]
        assert list(shares) == ["1000"]


def test_a_row_goes_on_and_keeps_its_purity(
    one_small_cora: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = one_small_cora
    assert run(tmp_path, "--task", "nodes", "--only", "positives-5", "--splits", "1") == 0
    assert run(tmp_path, "--task", "nodes", "--only", "positives-5", "--splits", "2") == 0
    cell = "cora-nodes-positives-5"
    told = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == [f"{cell} split 1000", f"{cell} split 1001"]
    shares = RecordFile(tmp_path / "purity.jsonl").read()[cell]

    (row,) = (row for row in ROWS["nodes"] if row.name == "positives-5")
    method = ablation.method_of(row)
    split = make_split(graph, "nodes", 1001)
    assert isinstance(split, NodeSplit)
    side = training_data(graph, split)
    method.fit(side, "nodes", seed=1001, device=CPU, progress=Progress())
    assert method.positives.shape == (graph.num_nodes, 5)
    assert graph.labels is not None
    right = [
        graph.labels[u] == graph.labels[v]
        for u in split.test
        for v in method.positives[u]
        if v >= 0
    ]
    assert shares["1001"] == pytest.approx(100 * np.mean(right), abs=0.01)


def test_a_refused_row_does_not_stop_the_others(
    one_small_cora: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = RecordFile(tmp_path / "ablation.jsonl")
    file.append("cora-nodes-default", {"dataset": "other"})
    assert run(tmp_path, "--task", "nodes", "--only", "default,positives-5", "--splits", "1") == 1
    assert "were run with another 'dataset'" in capsys.readouterr().err
    assert file.read()["cora-nodes-default"] == {"dataset": "other"}
    assert file.read()["cora-nodes-positives-5"]["seeds"] == [1000]


def record(row: str, figures: list[float]) -> dict[str, object]:
    error = float(np.std(figures, ddof=1) / len(figures) ** 0.5) if len(figures) > 1 else 0.0
    return {
        "method": row,
        "mean": float(np.mean(figures)),
        "stderr": error,
        "runs": figures,
        "seeds": list(range(1000, 1000 + len(figures))),
        "seconds": [2.0] * len(figures),
    }


def test_the_table_has_differences_paired_by_split(tmp_path: Path) -> None:
    for row, figures in {"default": [80.0, 84.0, 82.0], "long": [79.0, 82.0]}.items():
        RecordFile(tmp_path / "ablation.jsonl").append(f"cora-nodes-{row}", record(row, figures))
    shares = {"1000": 70.0, "1001": 71.0}
    RecordFile(tmp_path / "purity.jsonl").append("cora-nodes-long", shares)
    assert run(tmp_path, "--table") == 0
    text = (tmp_path / "tables.md").read_text()
    assert text == page(tmp_path)
    assert "| the default recipe | 82.00 ± 1.15 | – | 3 | 2.0 | – |" in text  # noqa: RUF001
    assert "| four times the epochs | 80.50 ± 1.50 | -1.50 ± 0.50 | 2 | 2.0 | 70.5 |" in text
    assert "| width 256 | – | – | – | – | – |" in text  # noqa: RUF001
    assert "citeseer" not in text
    assert "## cora, links" not in text
