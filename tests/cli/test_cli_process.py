"""The command as a process of its own: streams, exit codes and signals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_runs import python, small_graph
from typer.testing import CliRunner

from xtcl.cli.main import app, main
from xtcl.estimator import XTCL

pytestmark = pytest.mark.slow


# The signal is a real one; only the moment at which it comes is arranged.
INTERRUPTED = """
import os, signal, sys
# A shell's background job is born deaf to the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {tests!r})
from contextlib import contextmanager
from xtcl.cli.console import Bars

@contextmanager
def stage(self, name, steps):
    def advance(done):
        if name == "training":
            os.kill(os.getpid(), signal.SIGINT)
    yield advance

Bars.stage = stage
sys.argv = ["xtcl", *{arguments!r}]
from xtcl.cli.main import main
main()
"""


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    small_graph().save(tmp_path / "graph.npz")
    return tmp_path / "graph.npz"


def test_a_warning_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / f"{'0' * 64}.parquet").write_text("garbage")
    done = python("-m", "xtcl", "relations", "--store", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("Warning: ")
    assert "of the relation store is damaged" in done.stderr
    assert ".py" not in done.stderr


def test_results_go_to_standard_output_and_nothing_else_does(
    graph_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    arguments = ["fit", str(graph_file), "--task", "links", "--json", "--device", "cpu"]
    done = python("-m", "xtcl", *arguments, "--out", str(out))
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["out"] == str(out)
    assert "left out" in done.stderr
    loaded = XTCL.load(out)
    # The same fit in this process gives the same bytes.
    here = tmp_path / "here"
    CliRunner().invoke(app, [*arguments, "--out", str(here)], catch_exceptions=False)
    for name in ("embeddings.parquet", "relation_weights.png", "model/head.safetensors"):
        assert (here / name).read_bytes() == (out / name).read_bytes()
    assert loaded.embedding_.shape[0] == 80


def test_a_signal_is_130_and_the_fit_can_go_on(graph_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["fit", str(graph_file), "--device", "cpu", "--out", str(out)]
    tests = str(Path(__file__).parents[1] / "helpers")
    done = python("-c", INTERRUPTED.format(tests=tests, arguments=arguments))
    assert done.returncode == 130, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "--resume" in done.stderr
    assert list((out / "checkpoint").rglob("positives.safetensors"))
    result = CliRunner().invoke(app, [*arguments, "--resume"], catch_exceptions=False)
    assert result.exit_code == 0
    assert (out / "metrics.json").exists()


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_and_version_do_not_import_torch(flag: str) -> None:
    program = (
        "import sys; from xtcl.cli.main import main\n"
        f"sys.argv = ['xtcl', {flag!r}]\n"
        "try: main()\n"
        "finally: assert 'torch' not in sys.modules, 'torch was imported'"
    )
    done = python("-c", program)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_an_interrupt_outside_of_a_command_is_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("xtcl.cli.main.app", interrupted)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_the_estimator_needs_no_safetensors() -> None:
    done = python("-c", "import sys; sys.modules['safetensors'] = None\nfrom xtcl import XTCL")
    assert done.returncode == 0, done.stderr


def test_rubbish_is_a_sentence_and_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "rubbish.npz").write_bytes(bytes(range(256)) * 20)
    done = python("-m", "xtcl", "evaluate", str(tmp_path / "rubbish.npz"))
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
