"""Rubbish on the command line ends in a sentence on standard error and an exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from small_runs import files_of, small_graph
from typer.testing import CliRunner, Result

from xtcl.baselines.logistic import Logistic
from xtcl.cli.console import reported
from xtcl.cli.main import app
from xtcl.graph.graph import Graph

USAGE, DATA, BUDGET = 2, 3, 4


def invoke(*arguments: str) -> Result:
    """Run a command; an exception that is not an exit is a traceback, and fails the test."""
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def assert_refused(result: Result, code: int, *words: str) -> None:
    assert result.exit_code == code, (result.stdout, result.stderr)
    assert result.stdout == ""
    assert result.stderr.strip()
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    small_graph().save(tmp_path / "graph.npz")
    return tmp_path / "graph.npz"


@pytest.fixture(params=["fit", "evaluate"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """A command up to its GRAPH; nothing may be written to the folder it names."""
    if request.param == "evaluate":
        return ["evaluate", "--method", "logistic", "--splits", "1", "--device", "cpu"]
    return ["fit", "--out", str(tmp_path / "run"), "--device", "cpu"]


def test_an_unknown_data_set_meets_the_closest_one(command: list[str]) -> None:
    words = ("no data set 'coraa'", "Did you mean 'cora'", "a folder with nodes.csv and edges.csv")
    assert_refused(invoke(*command, "coraa"), USAGE, *words)
    missing = invoke(*command, "no/such/file.npz")
    assert_refused(missing, USAGE, "There is no file 'no/such/file.npz'")
    assert_refused(invoke(*command, ""), USAGE)
    assert_refused(invoke(*command, "x" * 5000), DATA)


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_data_set_s_name_wins_over_what_lies_here(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "cora"
    place.mkdir() if kind == "folder" else place.write_text("not a graph")
    result = invoke("evaluate", "cora", "--method", "logistic", "--splits", "1", "--device", "cpu")
    assert result.exit_code == 0, result.stderr
    assert "logistic on cora" in result.stdout


def test_files_that_are_no_graphs(command: list[str], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, content in {
        "empty.npz": b"",
        "binary.npz": rng.bytes(5000),
        "zip.npz": b"PK\x03\x04" + rng.bytes(200),
        "text.npz": b"0 1\n1 2\n",
    }.items():
        (tmp_path / name).write_bytes(content)
        assert_refused(invoke(*command, str(tmp_path / name)), DATA, name, "Graph.save")
    for name in ("binary.bin", "table.csv", "noend"):
        (tmp_path / name).write_bytes(rng.bytes(100))
        assert_refused(invoke(*command, str(tmp_path / name)), USAGE, "is not a graph file")
    assert_refused(invoke(*command, str(tmp_path)), USAGE, "is not a graph file")
    (tmp_path / "folder.npz").mkdir()
    assert_refused(invoke(*command, str(tmp_path / "folder.npz")), USAGE, "is not a graph file")
    np.savez(tmp_path / "arrays.npz", x=np.ones(3))
    assert_refused(invoke(*command, str(tmp_path / "arrays.npz")), DATA, "no header")


def test_graph_files_that_are_cut_short(command: list[str], graph_file: Path) -> None:
    content = graph_file.read_bytes()
    for length in (1, 100, len(content) // 2, len(content) - 1):
        graph_file.write_bytes(content[:length])
        assert_refused(invoke(*command, str(graph_file)), DATA, "graph.npz")


def test_graph_files_that_are_damaged(graph_file: Path) -> None:
    content = graph_file.read_bytes()
    command = ["evaluate", "--method", "logistic", "--splits", "1", "--device", "cpu"]
    refused = 0
    for place in np.linspace(40, len(content) - 30, 12).astype(int):
        altered = bytearray(content)
        altered[place] ^= 0xFF
        graph_file.write_bytes(altered)
        result = invoke(*command, str(graph_file))
        assert result.exit_code in (0, DATA)  # some bytes of a zip file mean nothing
        if result.exit_code:
            assert_refused(result, DATA, "graph.npz")
            refused += 1
    assert refused > 8


def test_graphs_that_do_not_serve_the_task(command: list[str], tmp_path: Path) -> None:
    graph = small_graph()
    path = tmp_path / "graph.npz"
    Graph.from_arrays(graph.attributes, graph.edges).save(path)
    assert_refused(invoke(*command, str(path)), DATA, "has no labels")
    Graph.from_arrays(graph.attributes, None, graph.labels).save(path)
    assert_refused(invoke(*command, str(path), "--task", "links"), DATA, "0 link(s)")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--device", "tpu"], "There is no device 'tpu'"),
        (["--device", "meta"], "There is no device 'meta'"),
        (["--task", "edges"], "--task"),
        (["--seed", "-1"], "--seed"),
        (["--seed", "four"], "--seed"),
        (["--seed", "99999999999999999999"], "--seed"),
        (["--surprise"], "--surprise"),
    ],
    ids=str,
)
def test_options_both_commands_refuse(
    command: list[str], graph_file: Path, options: list[str], word: str, tmp_path: Path
) -> None:
    assert_refused(invoke(*command, str(graph_file), *options), USAGE, word)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        (["--memory", "much"], USAGE, "memory='much'"),
        (["--memory", "-4GB"], USAGE, "memory='-4GB'"),
        (["--memory", "1MB"], BUDGET, "the budget is 1 MB"),
        (["--store", __file__], USAGE, "is a file, and a relation store is a folder"),
        (["--store", "store", "--store-limit", "much"], USAGE, "--store-limit='much'"),
        (["--store-limit", "1GB"], USAGE, "name it with --store"),
        (["--sampler", "best"], USAGE, "sampler='best'"),
        (["--encoder", "gin"], USAGE, "--encoder"),
        (["--compare", "magic"], USAGE, "There is no method 'magic'"),
    ],
    ids=str,
)
def test_options_that_fit_refuses(
    graph_file: Path, tmp_path: Path, options: list[str], code: int, word: str
) -> None:
    out = tmp_path / "run"
    result = invoke("fit", str(graph_file), "--out", str(out), "--device", "cpu", *options)
    assert_refused(result, code, word)
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--splits", "0"], "--splits"),
        (["--splits", "-3"], "--splits"),
        (["--method", "magic"], "There is no method 'magic'"),
        (["--method", "xtcl-gc"], "Did you mean 'xtcl-gcn'"),
    ],
    ids=str,
)
def test_options_that_evaluate_refuses(graph_file: Path, options: list[str], word: str) -> None:
    assert_refused(invoke("evaluate", str(graph_file), *options), USAGE, word)


def test_a_method_that_lacks_the_task_is_refused_before_any_work(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Logistic, "tasks", frozenset({"nodes"}))
    chosen = [str(graph_file), "--task", "links", "--device", "cpu"]
    result = invoke("evaluate", *chosen, "--method", "logistic")
    assert_refused(result, USAGE, "has no task 'links'")
    out = tmp_path / "run"
    result = invoke("fit", *chosen, "--out", str(out), "--compare", "gcn,logistic")
    assert_refused(result, USAGE, "has no task 'links'")
    assert not out.exists()


def test_an_out_that_is_a_file_or_inside_one(graph_file: Path) -> None:
    for out in (graph_file, graph_file / "run"):
        result = invoke("fit", str(graph_file), "--out", str(out), "--device", "cpu")
        assert_refused(result, USAGE, "graph.npz' is a file")


@pytest.mark.parametrize("resume", [[], ["--resume"]])
@pytest.mark.parametrize(
    "name",
    ["notes.txt", "metrics.json", "checkpoint/thesis.tex", "model/model.json", "identity.json"],
)
def test_an_out_that_is_not_ours_is_left_alone(
    graph_file: Path, tmp_path: Path, name: str, resume: list[str]
) -> None:
    theirs = tmp_path / "work" / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("{}")
    out = str(tmp_path / "work")
    result = invoke("fit", str(graph_file), "--out", out, "--device", "cpu", *resume)
    assert_refused(result, USAGE, f"'{out}' holds files", "an empty folder for --out")
    assert files_of(tmp_path / "work") == {name: b"{}"}


def test_a_data_folder_that_is_not_there(tmp_path: Path) -> None:
    for arguments in (["datasets"], ["fit", "citeseer", "--out", str(tmp_path / "r")]):
        result = invoke(*arguments, "--data", str(tmp_path / "nowhere"))
        assert_refused(result, DATA, "does not exist")


def test_a_data_set_that_cannot_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object) -> str:
        raise OSError("no network")

    monkeypatch.setattr("xtcl.graph.datasets.load._fetch", offline)
    monkeypatch.setenv("XTCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("XTCL_DATA", raising=False)
    result = invoke("evaluate", "citeseer", "--method", "logistic")
    assert_refused(result, DATA, "could not be downloaded", "--data DIR")


def test_no_command_and_an_unknown_command() -> None:
    nothing = invoke()
    assert nothing.exit_code == USAGE
    assert "Usage" in nothing.stdout + nothing.stderr
    unknown = invoke("juggle")
    assert unknown.exit_code == USAGE
    assert "juggle" in unknown.stderr
    assert invoke("fit").exit_code == USAGE


@pytest.mark.parametrize("take", [np.empty, torch.empty], ids=["NumPy", "torch"])
def test_memory_that_is_not_there_is_told_in_a_sentence(
    take: Callable[[int], object], capsys: pytest.CaptureFixture[str]
) -> None:
    @reported
    def command() -> None:
        take(2**55)

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == BUDGET
    assert "not enough memory" in capsys.readouterr().err


def test_a_bug_stays_a_bug() -> None:
    @reported
    def command() -> None:
        raise RuntimeError("two and two is five")

    with pytest.raises(RuntimeError, match="five"):
        command()


@pytest.mark.parametrize(
    "recipes",
    [
        ("--quick", "--config", "2026-11"),
        ("--sampler", "paper", "--quick"),
        ("--sampler", "paper", "--config", "quick"),
    ],
)
def test_one_recipe_at_a_time(recipes: tuple[str, ...], graph_file: Path, tmp_path: Path) -> None:
    refused = invoke("fit", str(graph_file), "--out", str(tmp_path / "run"), *recipes)
    assert_refused(refused, USAGE, "is a recipe of its own")


def test_the_quick_recipe_is_for_nodes(graph_file: Path, tmp_path: Path) -> None:
    asked = ("--task", "links", "--quick", "--out", str(tmp_path / "run"))
    assert_refused(invoke("fit", str(graph_file), *asked), USAGE, "'quick' is for nodes")
