"""What is shown of a fit: lines in a log, bars on a terminal, a display in a notebook."""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from rich.console import Console
from sklearn.base import clone
from small_runs import Recorder, hidden_stages, python, small_graph, small_model
from typer.testing import CliRunner

import xtcl
from xtcl import progress as module
from xtcl.cli.console import Bars, print_warning
from xtcl.cli.main import app
from xtcl.estimator import XTCL
from xtcl.integrations import NodeEmbedder
from xtcl.progress import (
    LogLines,
    NotebookBars,
    PrefixedProgress,
    Progress,
    TerminalBars,
    progress_of,
    visible_progress,
)

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (.*)")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def texts(stream: io.StringIO) -> list[str]:
    """The lines without their times; each has to have one."""
    found = [LINE.fullmatch(line) for line in stream.getvalue().splitlines()]
    return [line[1] for line in found if line is not None] if all(found) else []


def test_a_log_gets_a_line_at_both_ends_and_one_every_ten_seconds(clock: Clock) -> None:
    stream = io.StringIO()
    with LogLines(stream).stage("training", 120) as advance:
        for _ in range(120):
            clock.now += 0.5
            advance(1)
    assert texts(stream) == [
        "training: 120 steps",
        "training: 20 of 120, 50 s left",
        "training: 40 of 120, 40 s left",
        "training: 60 of 120, 30 s left",
        "training: 80 of 120, 20 s left",
        "training: 100 of 120, 10 s left",
        "training: done in 1 min 00 s",
    ]


def test_a_stage_that_ends_early_or_is_stopped_says_so(clock: Clock) -> None:
    stream = io.StringIO()
    lines = LogLines(stream)
    with lines.stage("training", 100) as advance:
        advance(36)
        clock.now += 7201

    def interrupted() -> None:
        with lines.stage("finding positives", 1):
            clock.now += 4
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert texts(stream) == [
        "training: 100 steps",
        "training: done after 36 of 100 in 2 h 00 min",
        "finding positives: 1 step",
        "finding positives: stopped at 0 of 1 after 4.0 s",
    ]


def test_a_warning_and_an_error_have_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        with LogLines(every=0).stage("work", 3) as advance:
            advance(1)
            print_warning("odd")
            advance(1)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken()
    out, err = capsys.readouterr()
    start, first, warning, second, stop = err.splitlines()
    assert out == ""
    assert all(LINE.fullmatch(line) for line in (start, first, second, stop))
    assert warning == "Warning: odd"


def test_bars_on_a_terminal_leave_a_warning_readable() -> None:
    stream = Terminal()
    console = Console(file=stream, force_terminal=True, width=120, color_system=None)
    with TerminalBars(console).stage("training", 4) as advance:
        advance(2)
        console.print("Warning: odd")
    shown = stream.getvalue()
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "\n").splitlines()
    assert "Warning: odd" in lines
    assert "2/2" in shown  # what was done is the whole


def test_where_it_runs_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(visible_progress(), TerminalBars)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(visible_progress(), LogLines)


def test_the_command_line_shows_what_suits_its_console(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(console: Console) -> str:
        with PrefixedProgress(Bars(console), "gcn: ").stage("training", 2) as advance:
            advance(2)
        stream = console.file
        return stream.getvalue() if isinstance(stream, io.StringIO) else ""

    assert "gcn: training" in shown(Console(file=io.StringIO(), force_terminal=True, width=120))
    assert shown(Console(file=io.StringIO(), force_terminal=True, quiet=True)) == ""
    capsys.readouterr()
    shown(Console(stderr=True, quiet=True))
    assert capsys.readouterr().err == ""
    shown(Console(stderr=True))
    assert [LINE.fullmatch(line) is not None for line in capsys.readouterr().err.splitlines()] == [
        True,
        True,
    ]


def test_verbose_shows_a_fit_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    graph = small_graph(40)
    quiet = small_model(epochs=2).fit(graph)
    assert capsys.readouterr() == ("", "")
    fitted = small_model(epochs=2, verbose=True).fit(graph)
    out, err = capsys.readouterr()
    assert out == ""
    printed = [LINE.fullmatch(line) for line in err.splitlines()]
    assert all(printed)
    assert "training: 2 steps" in err
    assert "finding positives: done in" in err
    assert (fitted.embedding_ == quiet.embedding_).all()


def test_a_given_progress_comes_before_verbose() -> None:
    own = Recorder()
    assert progress_of(small_model(progress=own, verbose=True)) is own
    assert type(progress_of(small_model())) is Progress


@pytest.mark.parametrize(
    ("verbose", "in_notebook", "elsewhere"),
    [(None, NotebookBars, Progress), (True, NotebookBars, LogLines), (False, Progress, Progress)],
)
def test_by_default_only_a_notebook_shows_a_fit(
    verbose: bool | None,
    in_notebook: type[Progress],
    elsewhere: type[Progress],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = XTCL() if verbose is None else XTCL(verbose=verbose)
    for inside, kind in ((True, in_notebook), (False, elsewhere)):
        monkeypatch.setattr("xtcl.progress.in_notebook", lambda inside=inside: inside)
        assert type(progress_of(model)) is kind
        assert type(progress_of(clone(NodeEmbedder(None, model)).model)) is kind


@pytest.mark.slow
def test_a_log_file_of_the_command_is_not_empty(tmp_path: Path) -> None:
    small_graph(40).save(tmp_path / "small.npz")
    command = ["fit", str(tmp_path / "small.npz"), "--out", str(tmp_path / "run"), "--epochs", "2"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    printed = [found[1] for line in result.stderr.splitlines() if (found := LINE.fullmatch(line))]
    assert any(text.startswith("learning which relations matter: done in") for text in printed)
    assert not any(LINE.fullmatch(line) for line in result.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of Jupyter's own parts
def test_a_notebook_shows_one_text_for_each_stage(tmp_path: Path) -> None:
    code = (
        "import xtcl\nfrom xtcl import XTCL, block_model\n"
        "model = XTCL(epochs=3, width=8).fit(block_model(40, num_attributes=8))\n"
        "XTCL(epochs=1, width=8, verbose=False).fit(block_model(40, num_attributes=8))\n"
        "XTCL(epochs=1, width=8, progress=xtcl.Progress()).fit(block_model(40, num_attributes=8))"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    resources: dict[str, Any] = {"metadata": {"path": tmp_path}}
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources)
    client.execute(env=os.environ | {"PYTHONPATH": str(Path(xtcl.__file__).parents[1])})
    outputs = notebook.cells[0]["outputs"]
    shown = [
        output["data"]["text/plain"]
        for output in outputs
        if output["output_type"] == "display_data"  # PyG's tqdm may miss ipywidgets, and warn
    ]
    names = [re.sub(r"^━* *", "", text).split(":")[0] for text in shown]
    assert names == hidden_stages(small_model().resolved_recipe())
    assert all(": done in " in text for text in shown)


def test_importing_it_imports_nothing_that_draws() -> None:
    code = "import sys, xtcl.progress; print([m for m in ('rich', 'IPython') if m in sys.modules])"
    assert python("-c", code).stdout == "[]\n"
