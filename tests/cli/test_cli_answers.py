"""predict, embed, links and explain on the command line."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from answer_runs import FIRST, fitted, run_folder, tables, write_rows
from typer.testing import CliRunner, Result

from xtcl.cli.main import app

pytestmark = pytest.mark.slow


USAGE, DATA = 2, 3


def invoke(*arguments: object) -> Result:
    """Run a command; an exception that is not an exit is a traceback, and fails the test."""
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, words, catch_exceptions=False, env={"COLUMNS": "120"})


def printed(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_predict_prints_csv_json_and_files(tmp_path: Path) -> None:
    run = run_folder("nodes")
    rows = rows_of(printed("predict", run))
    frame = fitted("nodes").predict_frame()
    assert len(rows) == FIRST
    assert rows[3]["node"] == "'=cmd()"
    assert [float(row["probability"]) for row in rows] == frame["probability"].tolist()
    output = json.loads(printed("predict", run, "--json"))["predictions"]
    assert output[3]["node"] == "=cmd()"
    assert [row["predicted"] for row in output] == frame["predicted"].tolist()
    done = invoke("predict", run, "--out", tmp_path / "p.parquet")
    assert done.stdout == ""
    assert "70 rows written to" in done.stderr
    assert pq.read_table(tmp_path / "p.parquet").to_pylist() == output
    printed("predict", run, "--out", tmp_path / "p.csv")
    assert rows_of((tmp_path / "p.csv").read_text(encoding="utf-8")) == rows


def test_new_nodes_on_the_command_line(tmp_path: Path) -> None:
    nodes, edges = tables().new
    run, out = run_folder("nodes"), tmp_path / "new.npz"
    new = ("--nodes", nodes, "--edges", edges)
    rows = rows_of(printed("predict", run, *new))
    assert [row["node"] for row in rows] == [f"n{u}" for u in range(FIRST, 80)]
    output = json.loads(printed("embed", run, *new, "--out", out, "--json"))
    assert output == {"out": str(out), "rows": 10}
    with np.load(out) as found:
        assert found["embedding"].shape == (10, fitted("nodes").compact_embedding_.shape[1])
    printed("embed", run, *new, "--out", out, "--full")
    with np.load(out) as found:
        assert found["embedding"].shape == (10, fitted("nodes").embedding_.shape[1])
    for options, column in (((), "z000"), (("--full",), "z0")):
        printed("embed", run, "--out", tmp_path / "all.parquet", *options)
        assert pq.read_table(tmp_path / "all.parquet").column_names[:2] == ["node", column]


def test_links_of_all_nodes_and_of_given_pairs(tmp_path: Path) -> None:
    run = run_folder("links")
    rows = rows_of(printed("links", run, "--k", 2))
    assert len(rows) == 2 * FIRST
    some = rows[4:26]
    assert {"'=cmd()", "'+49 1"} <= {row["node"] for row in some}  # read as they were written
    ends: list[list[object]] = [[row["node"], row["other"]] for row in some]
    pairs = write_rows(tmp_path / "pairs.csv", ["u", "v"], ends)
    output = json.loads(printed("links", run, "--pairs", pairs, "--json"))["pairs"]
    for one, other in zip(some, output, strict=True):
        assert float(one["score"]) == pytest.approx(other["score"], abs=2e-6)
        assert other["linked"] is False


def test_explain_a_node_and_a_pair() -> None:
    run = run_folder("nodes")
    text = printed("explain", run, "n20")
    assert text.startswith("n20: ")
    assert "Positives" in text
    assert "Neighbours" in text
    assert re.search(r"node +class +alike", text)
    assert re.search(r"node +alike", printed("explain", run_folder("links"), "n20"))
    output: dict[str, Any] = json.loads(printed("explain", run, "n20", "--json"))
    assert output["node"]["node"] == "n20"
    pair = printed("explain", run, "n20", "=cmd()")
    assert "Alike for the task with a chance of" in pair
    assert "Topology Sim." in pair
    assert len(json.loads(printed("explain", run, "n20", "=cmd()", "--json"))["signals"]) == 9
    assert "Score of a link between them" in printed("explain", run_folder("links"), "n20", "n21")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["predict", "LINKS"], USAGE, "ask for links"),
        (["links", "NODES"], USAGE, "--task links --out ANOTHER"),
        (["predict", "nowhere"], DATA, "There is no model in"),
        (["predict", "NODES", "--out", "x.xlsx"], USAGE, "must end in .csv or .parquet"),
        (["embed", "NODES", "--out", "no/such/x.csv"], USAGE, "There is no folder"),
        (["predict", "NODES", "--edges", "e.csv"], USAGE, "name their table with --nodes"),
        (["predict", "NODES", "--nodes", "none.csv"], DATA, "none.csv"),
        (["explain", "NODES", "n777"], USAGE, "Did you mean 'n"),
        (["explain", "NODES", "n1", "n1"], USAGE, "name two for a pair"),
        (["explain", "NODES", "=cmd()", "'=cmd()"], USAGE, "name two for a pair"),
        (["explain", "NODES", "-53"], USAGE, "For the node with that id write: -- -53"),
        (["explain", "NODES", "n1", "--jsn"], USAGE, "No such option"),
        (["links", "LINKS", "--pairs", "pairs.csv", "--out", "pairs.csv"], USAGE, "would be lost"),
        (["predict", "NODES", "--nodes", "pairs.csv", "--out", "./pairs.csv"], USAGE, "is read"),
        (["embed", "NODES", "--nodes", "pairs.csv", "--out", "pairs.csv"], USAGE, "is read"),
        (["links", "LINKS", "--pairs", "pairs.csv"], DATA, "there is no node 'who' in the run"),
    ],
)
def test_what_cannot_be_is_a_sentence_and_writes_nothing(
    arguments: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(Path("pairs.csv"), ["u", "v"], [["n1", "who"]])
    before = Path("pairs.csv").read_bytes()
    folders = {"NODES": run_folder("nodes"), "LINKS": run_folder("links")}
    result = invoke(*(folders.get(word, word) for word in arguments))
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in " ".join(result.stderr.split())
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.csv"]
    assert Path("pairs.csv").read_bytes() == before


@pytest.mark.parametrize("command", ["predict", "embed", "links", "explain"])
def test_help_fits_a_screen_and_has_an_example(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "80"})
    assert f"Example: xtcl {command} runs/mine" in result.stdout
    assert len(result.stdout.splitlines()) <= 35
