"""`xtcl fit` resolves a fit once: a call trace of the command counts each step of it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pytest
from small_runs import narrow, small_graph
from typer.testing import CliRunner

import xtcl
from xtcl.cli.main import app
from xtcl.config import FitConfig
from xtcl.runs.config_file import write_tuned
from xtcl.tasks import make_task

SOURCE = Path(xtcl.__file__).parent
PREPARED = {
    "configuration": "prepare.py:resolve_config",
    "training data": "tasks/training_data.py:training_data",
    "overlap with the test side": "tasks/training_data.py:check_disjoint",
    "relations": "relations/registry.py:resolve_relations",
    "sizes": "planning/sizes.py:of",
    "memory plan": "planning/memory_plan.py:plan_fit",
    "device": "device.py:pick_device",
    "task": "tasks/__init__.py:make_task",
    "whole fit": "prepare.py:prepare",
}
FITTED = {"identity": "prepare.py:identity", "test side": "tasks/metrics.py:score_test_side"}
LABEL_FREE = "sampling/likely_graph.py:label_free_sampler"
"""A sampler of the relations that read no label: it resolves those of the first one, no names."""


def calls_of(*arguments: str) -> Counter[str]:
    """How often the command calls each function of the package, by file and name."""
    calls: Counter[str] = Counter()
    root = f"{SOURCE}/"

    def count(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(root):
            calls[f"{code.co_filename.removeprefix(root)}:{code.co_name}"] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    finally:
        sys.setprofile(before)
    assert result.exit_code == 0, result.stderr
    return calls


def steps_of(task: str, calls: Counter[str]) -> dict[str, int]:
    """How often each step was called, without the relations of label-free samplers."""
    free = calls[LABEL_FREE]
    # For each hidden part and for the fit one for the positives, and one for the likely links.
    assert free == (2 * (1 + recipe_of(task).hidden_parts) if task == "nodes" else 0)
    found = {what: calls[where] for what, where in (PREPARED | FITTED).items()}
    return found | {"relations": found["relations"] - free}


def recipe_of(task: str) -> FitConfig:
    return narrow(make_task(task).recipe("gcn"), epochs=1)


def small_command(task: str, folder: Path) -> list[str]:
    small_graph().save(folder / "graph.npz")
    recipe = recipe_of(task)
    write_tuned(folder / "small.toml", {"task": task, "encoder": "gcn", "seed": 0}, recipe)
    options = ["--task", task, "--config", str(folder / "small.toml"), "--device", "cpu"]
    return ["fit", str(folder / "graph.npz"), *options, "--out", str(folder / "run")]


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_fit_is_resolved_once_and_scored_once(task: str, tmp_path: Path) -> None:
    command = small_command(task, tmp_path)
    calls = calls_of(*command)
    assert steps_of(task, calls) == dict.fromkeys(PREPARED | FITTED, 1)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_compared_method_gets_the_training_data_of_the_fit(task: str, tmp_path: Path) -> None:
    calls = calls_of(*small_command(task, tmp_path), "--compare", "logistic")
    assert steps_of(task, calls) == dict.fromkeys(PREPARED | FITTED, 1) | {"test side": 2}


def test_a_dry_run_prepares_the_same_once_and_hashes_nothing(tmp_path: Path) -> None:
    calls = calls_of(*small_command("nodes", tmp_path), "--dry-run")
    assert {what: calls[where] for what, where in PREPARED.items()} == dict.fromkeys(PREPARED, 1)
    assert {what: calls[where] for what, where in FITTED.items()} == dict.fromkeys(FITTED, 0)


def test_a_finished_run_is_recognised_by_one_more_hash(tmp_path: Path) -> None:
    command = small_command("nodes", tmp_path)
    calls_of(*command)
    calls = calls_of(*command, "--resume")
    assert {what: calls[where] for what, where in PREPARED.items()} == dict.fromkeys(PREPARED, 1)
    assert [calls[where] for where in FITTED.values()] == [1, 0]
