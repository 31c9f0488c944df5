"""`xtcl report`: a page beside the run, whole or not at all, and sentences for the rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from answer_runs import fitted, run_folder
from page_runs import few_resamples
from small_runs import notes
from typer.testing import CliRunner, Result

from xtcl.cli.main import app
from xtcl.report.page import render, summarise

__all__ = ["few_resamples"]
pytestmark = pytest.mark.usefixtures("few_resamples")


def xtcl(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder("nodes"), tmp_path / "run"))


@pytest.mark.slow
def test_the_page_lies_in_the_run(run: Path) -> None:
    result = xtcl("report", run)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert notes(result.stderr) == f"Report written to {run / 'report.html'}\n"
    page = (run / "report.html").read_text(encoding="utf-8")
    # A run tells as much as the fit itself did, the held-out part included.
    assert page == render(summarise(fitted("nodes")))
    assert "On held-out nodes" in page
    assert "=cmd()" in page


@pytest.mark.slow
def test_another_place_and_json(run: Path, tmp_path: Path) -> None:
    result = xtcl("report", run, "--out", tmp_path / "page.html", "--json")
    output = json.loads(result.stdout)
    assert output == {
        "out": str(tmp_path / "page.html"),
        "bytes": (tmp_path / "page.html").stat().st_size,
    }
    assert not (run / "report.html").exists()


@pytest.mark.slow
def test_a_run_for_links(tmp_path: Path) -> None:
    result = xtcl("report", run_folder("links"), "--out", tmp_path / "page.html")
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "On held-out links" in page
    assert "Which classes are mixed up" not in page


@pytest.mark.slow
def test_figures_of_the_fit_are_shown(run: Path) -> None:
    compared = {"xtcl-gcn": 0.9, "<logistic>": 0.5}
    (run / "metrics.json").write_text(json.dumps({"compared": compared, "seconds": 12.0}))
    assert xtcl("report", run).exit_code == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "&lt;logistic&gt;" in page
    assert "12.0 seconds" in page


@pytest.mark.slow
def test_an_older_run_is_shown_without_what_it_lacks(run: Path) -> None:
    (run / "test_labels.json").unlink()
    (run / "metrics.json").write_text("not ours")
    assert xtcl("report", run).exit_code == 0
    assert "On held-out nodes" not in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("labels", ['{"labels": [0]}', "[]", "{", '{"labels": ["a"]}'])
def test_damaged_labels_are_refused(run: Path, labels: str) -> None:
    (run / "test_labels.json").write_text(labels)
    result = xtcl("report", run)
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: ")
    assert not (run / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [{"test": [999]}, {"test": [-1]}, {"train": "a"}, {"kind": None}, {"seed": {}}]
)
def test_a_damaged_split_is_refused_by_its_name(run: Path, change: dict[str, Any]) -> None:
    split = run / "split.json"
    split.write_text(json.dumps(json.loads(split.read_text()) | change))
    result = xtcl("report", run)
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: ")
    assert not (run / "report.html").exists()


@pytest.mark.slow
def test_a_split_that_is_cut_short_is_named(run: Path) -> None:
    (run / "split.json").write_text("{")
    result = xtcl("report", run)
    assert result.exit_code == 3
    assert "split.json' cannot be read" in " ".join(result.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("compared", [{"a": "x", "b": 1}, {"a": None, "b": 1}, {"a": True}, [1, 2]])
def test_odd_figures_are_passed_over(run: Path, compared: Any) -> None:
    (run / "metrics.json").write_text(json.dumps({"compared": compared}))
    assert xtcl("report", run).exit_code == 0


@pytest.mark.slow
def test_misuse(run: Path, tmp_path: Path) -> None:
    for place in (tmp_path / "page.txt", tmp_path / "none" / "page.html"):
        result = xtcl("report", run, "--out", place)
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: ")
    result = xtcl("report", tmp_path)
    assert result.exit_code == 3
    assert "There is no model in" in result.stderr


@pytest.mark.slow
def test_a_page_that_fails_leaves_the_old_one(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "report.html").write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    result = xtcl("report", run)
    assert result.exit_code == 3
    assert "No space left" in result.stderr
    assert (run / "report.html").read_text() == "old"
    assert not list(run.glob("*.tmp")) + list(run.glob(".*.tmp"))
