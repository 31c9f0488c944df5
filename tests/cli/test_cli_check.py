"""Tables on the command line: check, fit and evaluate, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from small_runs import shrink_recipes, small_graph
from typer.testing import CliRunner, Result

from xtcl.cli.main import app

USAGE, DATA = 2, 3


def invoke(*arguments: str) -> Result:
    """Run a command; an exception that is not an exit is a traceback, and fails the test."""
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False, env={"COLUMNS": "120"})


def checked(*arguments: str) -> dict[str, Any]:
    result = invoke("check", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the tables of a small graph, which is the working directory."""
    place = tmp_path / "papers"
    place.mkdir()
    monkeypatch.chdir(place)
    graph = small_graph()
    assert graph.labels is not None
    rows = np.asarray(graph.attributes).astype(int)
    head = ",".join(["id", *(f"w{at}" for at in range(rows.shape[1])), "topic"])
    lines = [
        ",".join([f"n{at}", *map(str, row), f"t{graph.labels[at]}" if at % 5 else ""])
        for at, row in enumerate(rows)
    ]
    Path("nodes.csv").write_text("\n".join([head, *lines]) + "\n")
    links = "".join(f"n{u},n{v}\n" for u, v in graph.edges.T)
    Path("edges.csv").write_text("from,to\n" + links)
    Path("graph.toml").write_text('name = "mine"\nnodes = "nodes.csv"\nedges = "edges.csv"\n')
    return place


TABLES = ["--nodes", "nodes.csv", "--edges", "edges.csv", "--label", "topic"]


@pytest.mark.parametrize(
    "named", [TABLES, ["graph.toml", "--label", "topic"], [".", "--label", "topic"]]
)
def test_check_says_what_is_understood(named: list[str], folder: Path) -> None:
    found = checked(*named)
    assert found["graph"]["nodes"] == 80
    assert found["graph"]["labelled_nodes"] == 64
    assert found["tables"]["source"] == "from"
    assert found["tables"]["label"] == "topic"
    assert {column["kind"] for column in found["columns"]} == {"truth"}
    assert found["concerns"] == []
    assert [made["task"] for made in found["estimates"]] == ["nodes", "links"]
    text = invoke("check", *named).stdout
    for words in (
        "nodes.csv: 80 nodes, ids in column 'id'",
        "from column 'from' to 'to'",
        "(16 columns)",
    ):
        assert words in text
    assert "an estimate" in text
    assert sorted(path.name for path in folder.iterdir()) == [
        "edges.csv",
        "graph.toml",
        "nodes.csv",
    ]


def test_fit_and_evaluate_take_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_recipes(monkeypatch, epochs=5)
    result = invoke("fit", *TABLES, "--out", "run", "--device", "cpu", "--json")
    assert result.exit_code == 0, result.stderr
    assert "Looks wrong" not in result.stderr
    assert json.loads(result.stdout)["dataset"] == "papers"
    ids = pq.read_table(folder / "run" / "embeddings.parquet").column("node").to_pylist()
    assert ids == [f"n{at}" for at in range(80)]
    named = ["evaluate", "graph.toml", "--label", "topic", "--method", "logistic", "--splits", "1"]
    result = invoke(*named, "--device", "cpu", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["dataset"] == "mine"


@pytest.mark.parametrize(("options", "trained"), [([], 51), (["--train", "0.25"], 16)])
def test_of_one_s_own_tables_most_labels_train(
    options: list[str], trained: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_recipes(monkeypatch, epochs=2)
    result = invoke("fit", *TABLES, "--out", "run", "--device", "cpu", *options)
    assert result.exit_code == 0, result.stderr
    split = json.loads((folder / "run" / "split.json").read_text())
    assert (len(split["train"]), len(split["test"])) == (trained, 64 - trained)


def test_a_data_set_has_the_share_of_the_paper() -> None:
    named = ["evaluate", "cora", "--method", "logistic", "--splits", "1", "--device", "cpu"]
    figures = [
        json.loads(invoke(*named, "--json", *options).stdout)["mean"]
        for options in ([], ["--train", "0.1"], ["--train", "0.3"])
    ]
    assert figures[0] == figures[1] < figures[2] - 3


def test_check_says_what_looks_wrong(folder: Path) -> None:
    rows = [
        f"{at},{'cdd'[at % 3]}{at % 2},{at % 2 + at / 1000},{'rare' if at == 3 else f'c{at % 2}'},9"
        for at in range(60)
    ]
    Path("nodes.csv").write_text("id,disguise,score,topic,same\n" + "\n".join(rows))
    Path("edges.csv").write_text("source,target,weight\n1,2,1\n2,1,1\n3,3,2\n4,5,0\n")
    output = invoke("check", *TABLES).stdout
    result = invoke("fit", *TABLES, "--dry-run")
    assert result.exit_code == 0
    for sentence in checked(*TABLES)["concerns"]:
        assert f"Looks wrong: {sentence}" in result.stderr
    links = invoke("fit", *TABLES, "--task", "links", "--dry-run").stderr
    assert "have no link" in links
    assert "of the labels" not in links
    for words in (
        "Column 'disguise' alone tells 98.3% of the labels",
        "Column 'score' alone tells 100.0% of the labels",
        "58 of 60 nodes (97%) have no link",
        "1 class(es) have a single node: 'rare'",
        "left out: it is '9' throughout",
        "The weights in column 'weight' of edges.csv are not used",
        "1 row(s) of edges.csv have the weight 0",
        "1 edge from a node to itself was dropped",
    ):
        assert words in output
    unlabelled = checked(*TABLES[:4])
    assert any("There are no labels" in sentence for sentence in unlabelled["concerns"])
    few = checked("--edges", "edges.csv")
    assert few["tables"]["id"] is None
    assert any("There are no attributes" in sentence for sentence in few["concerns"])


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a"] * 97 + ["b"] * 3, "97.0% of the labels are 'a'"),
        ([f"c{at // 2}" for at in range(12)] + ["x", "y", "z"], "Only 15 nodes have a label"),
        ([f"c{at % 20}" for at in range(30)], "The labels are nearly unique: 20 classes for 30"),
        (["-1", "0", "1"] * 10, "-1 is a class of its own here"),
    ],
)
def test_check_doubts_labels(labels: list[str], words: str, folder: Path) -> None:
    rows = "\n".join(f"{at},{at % 7},{label}" for at, label in enumerate(labels))
    Path("nodes.csv").write_text("id,x,topic\n" + rows)
    Path("edges.csv").write_text("u,v\n0,1\n")
    assert words in " ".join(checked(*TABLES)["concerns"])


def test_check_of_a_data_set() -> None:
    found = checked("cora")
    assert (found["tables"], found["columns"], found["concerns"]) == (None, [], [])
    assert "cora: 2,708 nodes, 5,278 links" in invoke("check", "cora").stdout


def test_hostile_names_are_shown_as_text(folder: Path) -> None:
    head = 'id,[red]<script>[/bold],"\x1b[31m",topic\n'
    Path("nodes.csv").write_text(head + "=cmd(),a,1,x\nb,c,2,y\nd,a,3,x\n")
    Path("edges.csv").write_text("u,v\nb,=cmd()\n")
    result = invoke("check", *TABLES)
    assert result.exit_code == 0, result.stderr
    assert "[red]<script>[/bold]" in result.stdout
    assert "\x1b[31m" not in result.stdout
    assert "1 id(s) look like formulas" in result.stdout


@pytest.mark.parametrize("command", ["check", "fit", "evaluate", "tune"])
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], USAGE, "Name a GRAPH, or give your tables with --nodes and --edges"),
        (["--nodes", "nodes.csv"], USAGE, "--nodes alone is no graph"),
        (["cora", *TABLES], USAGE, "Give either the GRAPH 'cora' or --nodes and --edges"),
        (["cora", "--label", "topic"], USAGE, "--label names a column of a table"),
        (["none.toml"], USAGE, "There is no file 'none.toml'"),
        (["nodes.csv"], USAGE, "Give tables with --nodes and --edges"),
        (["bad.toml"], DATA, "bad.toml is not a TOML file in UTF-8"),
        (["odd.toml"], DATA, "odd.toml: there is no key 'node'. Did you mean 'nodes'?"),
        (["typed.toml"], DATA, "typed.toml: scale = 'no' must be a bool"),
        (["bare.toml"], DATA, "bare.toml names no edges"),
        (["listed.toml"], DATA, "listed.toml: ignore=[1] must be a list of texts"),
        (["lost.toml"], DATA, "lost.csv cannot be read: No such file or directory"),
        (["twice"], DATA, "twice has several tables of edges (edges.csv, edges.tsv)"),
        (["hollow"], USAGE, "'hollow' is not a graph file"),
        ([*TABLES[:4], "--label", "topics"], DATA, "Did you mean 'topic'?"),
    ],
    ids=str,
)
def test_what_is_refused(
    command: str, arguments: list[str], code: int, words: str, folder: Path
) -> None:
    for name, text in {
        "bad": "nodes = ",
        "odd": 'node = "nodes.csv"',
        "typed": 'edges = "edges.csv"\nscale = "no"',
        "bare": 'nodes = "nodes.csv"',
        "listed": 'edges = "edges.csv"\nignore = [1]',
        "lost": 'edges = "lost.csv"',
    }.items():
        Path(f"{name}.toml").write_text(text)
    for name in ("twice", "hollow"):
        Path(name).mkdir()
    for name in ("edges.csv", "edges.tsv"):
        Path("twice", name).write_text("u,v\na,b\n")
    out = [] if command in ("check", "evaluate") else ["--out", "out"]
    result = invoke(command, *arguments, *out)
    assert (result.exit_code, result.stdout) == (code, ""), result.stderr
    assert words in result.stderr
    assert not Path("out").exists()


def test_a_missing_label_is_asked_for(folder: Path) -> None:
    result = invoke("fit", *TABLES[:4], "--out", "run")
    assert result.exit_code == USAGE
    assert "Which column of nodes.csv holds the classes? Name it with --label" in result.stderr
    assert "(there are: topic, w0, " in result.stderr
    result = invoke("fit", "--edges", "edges.csv", "--out", "run")
    assert "no table of nodes, and so no labels" in result.stderr
    assert not Path("run").exists()


def test_rubbish_leaves_nothing_behind(folder: Path) -> None:
    Path("nodes.csv").write_bytes(np.random.default_rng(0).bytes(500))
    for command in (["check"], ["fit", "--out", "run"], ["evaluate"]):
        result = invoke(*command, *TABLES)
        assert result.exit_code == DATA
        assert result.stderr.startswith("Error: nodes.csv")
    assert sorted(path.name for path in folder.iterdir()) == [
        "edges.csv",
        "graph.toml",
        "nodes.csv",
    ]
