"""lab/scripts/tuned.py: a search on every split, and the score of what it found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import small_graph

from xtcl.baselines.method import XTCLGCN
from xtcl.config import FitConfig
from xtcl.graph.graph import Graph
from xtcl.lab.experiments.records import RecordFile
from xtcl.lab.scripts import tuned
from xtcl.model_selection.evaluate import make_split, score_method
from xtcl.model_selection.tune import tune
from xtcl.progress import Progress
from xtcl.tasks.training_data import training_data

CPU = torch.device("cpu")


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
