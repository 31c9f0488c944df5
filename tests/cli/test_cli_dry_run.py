"""`xtcl fit --dry-run`: the plan, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from xtcl.cli.check import LONG_SECONDS, SHORTER, TIMED, _estimates, duration, print_plan
from xtcl.cli.main import app
from xtcl.graph.datasets.synthetic import block_model
from xtcl.planning.memory_plan import NO_LIMIT, plan_stages
from xtcl.planning.sizes import Sizes
from xtcl.tasks import make_task

BUDGET = 4


def run(*words: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, ["fit", *words])
    return found.exit_code, found.stdout, found.stderr


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "graph.npz"
    block_model(300).save(path)
    return str(path)


def test_shows_the_plan_and_writes_nothing(graph: str, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    before = sorted(tmp_path.rglob("*"))
    code, text, _ = run(graph, "--dry-run", "--out", str(tmp_path / "run"), "--store", store)
    assert code == 0
    for stage in ("relations", "positives", "training", "embedding", "head", "whole fit"):
        assert stage in text
    for word in ("exact", "all nodes at once", "the whole graph in every step", "to the store"):
        assert word in text
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_with_a_run_is_no_obstacle(graph: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    assert run(graph, "--dry-run", "--out", str(tmp_path))[0] == 0


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_as_one_object(graph: str, task: str) -> None:
    words = (graph, "--task", task, "--dry-run", "--json", "--cap", "8", "--memory", "2GB")
    code, text, _ = run(*words)
    assert code == 0
    plan = json.loads(text)
    assert plan["mode"] == "top-k"
    assert plan["cap"] == 8
    assert plan["budget_bytes"] == 2 * 2**30
    assert plan["mini_batches"] is False
    assert plan["peak_bytes"] == max(stage["peak"] for stage in plan["stages"])
    assert plan.pop("relation_seconds") > 0
    again = json.loads(run(*words)[1])
    assert again.pop("relation_seconds") > 0
    assert again == plan


def test_the_relations_are_timed_and_the_line_says_what_is_not(
    graph: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text, _ = run(graph, "--dry-run")
    assert "relations: less than a minute" in text
    assert TIMED in text
    recipe = make_task("nodes").recipe("gcn")
    known = Sizes("cora", "nodes", 2708, 5278, 1433, 4 * 2708 * 1433, 7, 270, recipe)
    for seconds, shorter in ((LONG_SECONDS - 1, False), (LONG_SECONDS + 1, True)):
        print_plan(plan_stages(known, NO_LIMIT), None, known.nodes, seconds)
        text = capsys.readouterr().out
        assert "relations: about 60 min" in text
        assert (SHORTER in text) is shorter


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "less than a minute"),
        (61, "about 1 min"),
        (5000, "about 83 min"),
        (9000, "about 2.5 hours"),
    ],
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_too_little_memory_is_refused_before_any_work(graph: str, tmp_path: Path) -> None:
    for extra in (["--dry-run"], []):
        code, text, told = run(graph, "--memory", "100MB", "--out", str(tmp_path / "run"), *extra)
        assert code == BUDGET
        assert not text
        assert re.search(r"needs about 0\.\d\d GB and the budget is 0\.10 GB", told)
    assert not (tmp_path / "run").exists()


def test_a_long_fit_comes_with_a_shorter_way() -> None:
    quick = {"task": "nodes", "relation_seconds": 10.0, "gigabytes": 1.0}
    assert SHORTER not in _estimates([quick])
    assert _estimates([quick, quick | {"relation_seconds": LONG_SECONDS + 1}])[-1] == SHORTER
