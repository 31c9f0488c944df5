"""Versions and hardware of a measurement."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from layers import RANK
from small_runs import small_graph

import xtcl
from xtcl.baselines.method import Method
from xtcl.errors import UsageError
from xtcl.lab.experiments import provenance as module
from xtcl.lab.experiments.provenance import evaluate_into, provenance
from xtcl.lab.experiments.records import RecordFile
from xtcl.model_selection.evaluation import evaluate
from xtcl.progress import Progress
from xtcl.tasks.results import NodePredictions, Predictions
from xtcl.tasks.training_data import TrainingData

CPU = torch.device("cpu")


def test_versions_are_those_installed() -> None:
    versions = provenance(CPU)["versions"]
    assert versions.pop("python") == platform.python_version()
    assert versions.pop("xtcl") == xtcl.__version__
    assert versions.pop("code") == module.CODE
    assert list(versions) == ["numpy", "scipy", "torch", "torch_geometric"]
    for name, version in versions.items():
        # torch says how it was built, too: 2.13.0+cpu
        assert str(version).split("+")[0] == importlib.metadata.version(name).split("+")[0]


def test_hardware_counts_the_threads_in_use() -> None:
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            hardware = provenance(CPU)["hardware"]
            assert hardware["threads"] == threads
    finally:
        torch.set_num_threads(before)
    assert list(hardware) == ["cpu", "cpus", "threads", "gpu"]
    assert hardware["cpu"]
    assert int(hardware["cpus"]) >= 1


def test_the_gpu_is_named_where_the_work_runs_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU of {device}")
    assert provenance(CPU)["hardware"]["gpu"] == "none"
    assert provenance(torch.device("cuda"))["hardware"]["gpu"] == "GPU of cuda"


def test_the_processor_is_read_from_linux_or_else_its_architecture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    described = tmp_path / "cpuinfo"
    monkeypatch.setattr(module, "Path", lambda path: described)
    assert provenance(CPU)["hardware"]["cpu"] == platform.machine()
    described.write_text("processor\t: 0\nmodel name\t: Acme 9: fast\n\nmodel name\t: Other\n")
    assert provenance(CPU)["hardware"]["cpu"] == "Acme 9: fast"


def test_plain_values_without_paths() -> None:
    text = json.dumps(provenance(CPU))
    assert json.loads(text) == provenance(CPU)
    assert str(Path.home()) not in text


def write(home: Path, **files: str) -> str:
    """The digest of a folder with one file in each package."""
    for package, text in files.items():
        (home / package).mkdir(exist_ok=True)
        (home / package / "one.py").write_text(text)
    return module.figures_digest(home)


def test_the_digest_of_the_code_sees_code_and_nothing_else(tmp_path: Path) -> None:
    first = write(tmp_path, tasks='"""Doc."""\n\ndef f(x):\n    """Doc."""\n    return x + 1\n')
    assert write(tmp_path, tasks="def f(x):  # why\n    return (x + 1)\n", cli="print()") == first
    assert write(tmp_path, tasks="def f(x):\n    return x + 2\n") != first


def test_no_code_that_an_experiment_may_use_is_left_out_of_the_digest(tmp_path: Path) -> None:
    before = {name for name, rank in RANK.items() if rank < RANK["report"]}
    for name in before | {"estimator", "baselines", "model_selection", "lab"}:
        assert write(tmp_path, **{name: "x = 1\n"}) != write(tmp_path, **{name: "x = 2\n"})


def test_the_scripts_have_a_digest_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    first = write(tmp_path, tasks="x = 1\n")
    assert write(tmp_path, **{"lab/scripts": "x = 1\n"}) == first
    assert write(tmp_path, **{"lab/methods": "x = 1\n"}) != first


def test_code_edited_while_a_batch_runs_is_not_what_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = provenance(CPU)
    write(tmp_path, tasks="edited = True\n")
    monkeypatch.setattr(xtcl, "__file__", str(tmp_path / "__init__.py"))
    assert provenance(CPU) == before


# Runs that are kept split by split: what is done is not done again.

GRAPH = small_graph()


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
    seeds_done: list[int] = []
    evaluate_into(
        RecordFile(path),
        "cell",
        GRAPH,
        "nodes",
        method,
        splits=splits,
        device=CPU,
        conditions=CONDITIONS | changes,
        on_split=lambda seed, figure, seconds: seeds_done.append(seed),
    )
    return seeds_done


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
    assert "metrics" in expected  # the record has the figure of the task alone
    assert record == {k: v for k, v in expected.items() if k != "metrics"} | plain


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
