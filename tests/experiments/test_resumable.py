"""Runs that are kept split by split: what is done is not done again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from small_runs import small_graph

from xtcl.baselines.method import Method
from xtcl.errors import UsageError
from xtcl.lab.experiments.provenance import evaluate_into
from xtcl.lab.experiments.records import RecordFile
from xtcl.model_selection.evaluate import evaluate
from xtcl.progress import Progress
from xtcl.tasks.results import NodePredictions, Predictions
from xtcl.tasks.training_data import TrainingData

GRAPH = small_graph()
CPU = torch.device("cpu")
CONDITIONS = {"config": {"levels": (0.9, 0.99)}, "hardware": {"gpu": "none"}}


class Guess(Method):
    """Answers by the seed alone, remembers the seeds, and can be killed at one."""

    name: ClassVar[str] = "guess"
    title: ClassVar[str] = "Guess"
    tasks: ClassVar[frozenset[str]] = frozenset({"nodes"})

    def __init__(self, killed_at: int | None = None) -> None:
        self.killed_at = killed_at
        self.seeds: list[int] = []

    def fit(
        self, side: TrainingData, task: str, *, seed: int, device: torch.device, progress: Progress
    ) -> Predictions:
        """Random classes."""
        if seed == self.killed_at:
            raise KeyboardInterrupt
        self.seeds.append(seed)
        return NodePredictions(np.random.default_rng(seed).random((GRAPH.num_nodes, 3)))


def run(path: Path, method: Method, splits: int, **changes: Any) -> list[int]:
    """The seeds that were reported."""
    told: list[int] = []
    evaluate_into(
        RecordFile(path),
        "cell",
        GRAPH,
        "nodes",
        method,
        splits=splits,
        device=CPU,
        conditions=CONDITIONS | changes,
        on_split=lambda seed, figure, seconds: told.append(seed),
    )
    return told


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "cell.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run(path, Guess(killed_at=2), 4)
    kept = RecordFile(path).read()["cell"]
    assert kept["seeds"] == [0, 1]

    method = Guess()
    assert run(path, method, 4) == method.seeds == [2, 3]
    record = RecordFile(path).read()["cell"]
    assert record["seconds"][:2] == kept["seconds"]
    assert [file.name for file in tmp_path.iterdir()] == ["cell.jsonl"]

    before = path.read_bytes()
    assert run(path, method, 4) == run(path, method, 3) == []
    assert path.read_bytes() == before


@pytest.mark.parametrize("splits", [1, 4])
def test_the_file_holds_what_evaluate_gives_and_the_conditions(tmp_path: Path, splits: int) -> None:
    path = tmp_path / "cell.jsonl"
    for count in range(1, splits + 1):
        run(path, Guess(), count)
    record = RecordFile(path).read()["cell"]
    expected = evaluate(GRAPH, "nodes", Guess(), splits=splits).to_json()
    assert len(record.pop("seconds")) == len(expected.pop("seconds"))  # type: ignore[arg-type]
    plain = {"config": {"levels": [0.9, 0.99]}, "hardware": {"gpu": "none"}}
    assert record == expected | plain


@pytest.mark.parametrize("name", ["config", "hardware"])
def test_splits_of_other_conditions_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "cell.jsonl"
    run(path, Guess(), 1)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=f"another '{name}'.*Move the file away"):
        run(path, Guess(), 2, **{name: {"levels": [0.5]}})
    assert path.read_bytes() == before


def test_a_file_of_another_method_is_refused(tmp_path: Path) -> None:
    class Other(Guess):
        name: ClassVar[str] = "other"

    run(tmp_path / "cell.jsonl", Guess(), 1)
    with pytest.raises(UsageError, match="another 'method': guess there, other now"):
        run(tmp_path / "cell.jsonl", Other(), 2)
