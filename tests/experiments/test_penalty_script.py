"""lab/scripts/penalty.py: what each rule takes, and a table drawn from what was written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import small_graph

from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts import penalty
from xtcl.tasks.logistic import C_VALUES, fit_logistic

CPU = torch.device("cpu")


def test_rules_take_strengths_of_the_list_and_the_package_s_own() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=60)
    rows = np.eye(3)[labels] + rng.normal(size=(60, 3))
    found = penalty.strengths_by_rule(rows, labels, 4, CPU)
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
