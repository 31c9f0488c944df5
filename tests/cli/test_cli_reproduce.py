"""`xtcl reproduce`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from xtcl.cli.main import app
from xtcl.lab.experiments.comparison import Comparison
from xtcl.lab.experiments.experiment import Context, Plain, Run
from xtcl.lab.experiments.records import RecordFile

pytestmark = pytest.mark.slow


USAGE, DATA, INTERRUPTED = 2, 3, 130


def reproduce(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", *arguments])


def test_a_table_from_runs_of_ones_own_and_again_without_any(tmp_path: Path) -> None:
    asked = ("table-nodes", "--quick", "--methods", "logistic", "--splits", "1")
    first = reproduce(*asked, "--out", str(tmp_path))
    assert first.exit_code == 0, first.output
    assert "| Attributes + LR |" in first.stdout
    assert "1 of 1: cora-500-logistic-0" in first.stderr
    folder = tmp_path / "table-nodes"
    assert {path.name for path in folder.iterdir()} == {
        "table-nodes.jsonl",
        "table-nodes.md",
        "table-nodes.png",
        "table-nodes.svg",
    }
    second = reproduce(*asked, "--out", str(tmp_path))
    assert second.stdout == first.stdout
    assert "1 of 1 runs are there already." in second.stderr
    drawn = reproduce("table-nodes", "--quick", "--draw-only", "--out", str(tmp_path))
    assert drawn.exit_code == 0, drawn.output
    assert drawn.stdout == first.stdout
    described = json.loads(reproduce(*asked, "--out", str(tmp_path), "--json").stdout)
    assert (described["name"], described["asked"], described["out"]) == (
        "table-nodes",
        1,
        str(folder),
    )
    assert described["runs"] == list(RecordFile(folder / "table-nodes.jsonl").read().values())


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    result = reproduce("classes", "--draw-only", "--out", str(tmp_path / "out"))
    assert result.exit_code == DATA
    assert "None of the" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tables"], "There is no experiment 'tables'"),
        (["table-links", "--methods", "meta"], "There is no method 'meta' here"),
        (["table-nodes", "--methods", "subgraph"], "SubGraph has no task 'nodes'. It knows: links"),
        (["table-links", "--methods", "gcn,cocos"], "CoCoS has no task 'links'. It knows: nodes"),
        (["table-links", "--datasets", "nope"], "There is no data set 'nope' here"),
        (["table-nodes", "--device", "abacus"], "abacus"),
        (["table-nodes", "--seed", "4294967296"], "must be a whole number from 0 to"),
    ],
)
def test_misuse_is_a_sentence(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    result = reproduce(*arguments, "--out", str(tmp_path / "out"))
    assert result.exit_code == USAGE
    assert sentence in result.stderr
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(
        self: Comparison, dataset: str, method: str, seed: int, nodes: int | None
    ) -> Run:
        def measure(bench: Context) -> Plain:
            raise KeyboardInterrupt

        return Run({"dataset": dataset, "method": method, "seed": seed}, measure)

    monkeypatch.setattr(Comparison, "run", interrupted)
    result = reproduce("table-nodes", "--quick", "--out", str(tmp_path))
    assert result.exit_code == INTERRUPTED
    assert "the same command goes on" in result.stderr


def test_nothing_measured_is_an_error(tmp_path: Path) -> None:
    result = reproduce(
        *("table-nodes", "--datasets", "photo", "--methods", "logistic", "--splits", "1"),
        *("--data", str(tmp_path), "--out", str(tmp_path / "out")),
    )
    assert result.exit_code == DATA
    assert "None of the 1 runs" in result.stderr
