"""Rubbish in tables meets a sentence with the file, the line and the remedy."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from small_tables import read, write

from xtcl.errors import DataError, UsageError
from xtcl.graph.tables.read import read_spec
from xtcl.graph.tables.spec import TableSpec

GOOD = "id,x,y\na,1,u\nb,2,v\nc,3,u\n"
EDGES = "source,target\na,b\nb,c\n"
NOISE = np.random.default_rng(0).bytes(5000)

NODES: dict[str, tuple[str | bytes, str]] = {
    "binary": (NOISE, "line 2: a zero byte; this is no text. Give a CSV, TSV or Parquet"),
    "binary without zeros": (NOISE.replace(b"\0", b"\1"), "is not UTF-8; save the file as UTF-8"),
    "utf-16": (GOOD.encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
    "utf-16 without a mark": (GOOD.encode("utf-16-le"), "is UTF-16 text; save it as UTF-8"),
    "latin-1": (GOOD.replace("v", "é").encode("latin-1"), "line 3: byte 0xe9 is not UTF-8"),
    "latin-1 names": ("id,é\na,1\n".encode("latin-1"), "line 1: byte 0xe9 is not UTF-8"),
    "late zero byte": (GOOD + " " * 70_000 + "d\0,1,u\n", "line 5: a zero byte"),
    "a short row": ("id,x,y\na,1,u\nb,2\n", "line 3: 2 cell(s), but 3 column name(s)"),
    "a long row": ("id,x,y\na,1,u\nb,2,v,w\n", "line 3: 4 cell(s), but 3 column name(s)"),
    "an open quote": ('id,x,y\na,1,"u\nb,2,v\n', "line 2: a quote is opened in this row"),
    "repeated ids": (
        "id,x\na,1\nb,2\na,3\na,4\n",
        "line 4: id 'a' was there before (nodes.csv, line 2); 2 row(s) of nodes.csv repeat",
    ),
    "repeated ids after a quoted line end": (
        'id,x,y\na,1,"u\nu"\nb,2,v\n\nb,3,u\n',
        "line 6: id 'b' was there before (nodes.csv, line 4)",
    ),
    "no id": ("id,x\na,1\n ,2\n", "line 3: no id in column 'id'; give one, or remove the row"),
    "an endless id": ("id,x\na,1\n" + "b" * 300 + ",2\n", "line 3: an id of 300 characters"),
    "empty": ("", "is empty; a table needs a line of column names and rows"),
    "empty lines": ("\n\n \n", "is empty; a table needs column names and rows"),
    "names only": ("id,x,y\n", "has column names, but no rows"),
    "names only, no line end": ("id,x,y", "has column names, but no rows"),
    "one node": ("id,x\na,1\n", "has 1 node(s); a graph needs at least two"),
    "the same name twice": ("id,x,x\na,1,2\nb,1,2\n", "has several columns called 'x'"),
    "infinity": (GOOD.replace("2", "inf"), "line 3: column 'x' is inf; numbers must be finite"),
    "an overflow": (GOOD.replace("2", "9" * 400), "line 3: column 'x' is inf"),
    "a huge number": (GOOD.replace("2", "-1e200"), "line 3: column 'x' is -1e+200"),
    "a zip file": (b"PK\x03\x04" + NOISE, "is a zip or spreadsheet file; export the sheet"),
    "damaged gzip": (gzip.compress(GOOD.encode() * 99)[:40], "is damaged gzip"),
    "gzip that holds nothing": (gzip.compress(b""), "is empty"),
    "damaged Parquet": (b"PAR1" + NOISE, "is damaged"),
    "no node of an edge": ("id,x\na,1\nb,2\n", "line 3: there is no node 'c' in nodes.csv; 1 row"),
}
LABELS: dict[str, tuple[str, str]] = {
    "one class": ("id,y\na,u\nb,u\nc,\n", "line 2: label column 'y' is 'u' wherever it is filled"),
    "none": ("id,y\na,\nb,NA\nc,\n", "no node has a label in column 'y'"),
    "measurements": ("id,y\na,\nb,0.5\nc,1\n", "line 3: label '0.5' in column 'y' is a measure"),
    "no such column": (GOOD.replace("y", "yes"), "no column 'y' for the label. Known: id, x, yes"),
    "as many as nodes": (
        "id,y\n" + "".join(f"{at},c{at}\n" for at in range(50_000)),
        "line 2: label column 'y' has 50,000 classes for 50,000 labelled nodes",
    ),
}
LINKS: dict[str, tuple[str | bytes, str]] = {
    "unknown ids": (
        "u,v\na,b\na,zz\nqq,b\n",
        "edges.csv, line 3: there is no node 'zz' in nodes.csv; 2 row(s) of edges.csv",
    ),
    "no id": ("u,v\na,b\na,\n", "edges.csv, line 3: no id in column 'v'"),
    "one column": ("u\na\n", "edges.csv has one column, 'u', and an edge has two ends"),
    "a negative weight": ("u,v,weight\na,b,1\na,c,-2\n", "line 3: the weight in column 'weight'"),
    "a weight that is none": ("u,v,Weight\na,b,1\na,c,much\n", "line 3: the weight in column 'We"),
    "an empty weight": ("u,v,weight\na,b,\n", "line 2: the weight in column 'weight' is nan"),
    "an endless weight": ("u,v,weight\na,b,inf\n", "the weight in column 'weight' is inf"),
    "empty": ("", "edges.csv is empty"),
}


def refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, nodes: Any, edges: Any, **settings: Any
) -> str:
    monkeypatch.chdir(folder)
    write(folder, "nodes.csv", nodes)
    write(folder, "edges.csv", edges)
    with pytest.raises(DataError) as caught:
        read_spec(TableSpec(nodes="nodes.csv", edges="edges.csv", **settings))
    return str(caught.value)


@pytest.mark.parametrize("case", NODES)
def test_nodes(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, sentence = NODES[case]
    message = refused(tmp_path, monkeypatch, content, EDGES)
    assert sentence in message
    assert "nodes.csv" in message


@pytest.mark.parametrize("case", LABELS)
def test_labels(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, sentence = LABELS[case]
    assert sentence in refused(tmp_path, monkeypatch, content, EDGES, label="y")


@pytest.mark.parametrize("case", LINKS)
def test_links(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, sentence = LINKS[case]
    assert sentence in refused(tmp_path, monkeypatch, GOOD, content)


def test_places_that_are_no_tables(tmp_path: Path) -> None:
    edges = write(tmp_path, "edges.csv", EDGES)
    for nodes, sentence in (
        (tmp_path, "is a folder; name the file of the table in it"),
        (tmp_path / "none.csv", "No such file or directory. Check the path"),
        ("a\0b", "cannot be read: embedded null byte"),
        ("/dev/null", "is not a plain file"),
        ("x" * 5000, "File name too long"),
    ):
        with pytest.raises(DataError, match=re.escape(sentence)):
            read_spec(TableSpec(nodes=nodes, edges=edges))


def test_frames(tmp_path: Path) -> None:
    edges = pa.table({"u": ["a"], "v": ["b"]})
    for nodes, sentence in (
        (pd.DataFrame({"id": ["a", 1], "x": [1, 2]}), "give every column values of one kind"),
        (pa.table({"id": [["a"], ["b"]]}), "values of type list<item: string>"),
        (pa.table({"id": ["a", None]}), "the frame of nodes, row 2: no id"),
        (pa.table({"id": ["a", "b\0"]}), "row 2: an id with a zero byte in it"),
        (pa.table({"id": ["a", "b"], "x": [1.0, np.inf]}), "row 2: column 'x' is inf"),
        (pa.table({"id": pa.array([], pa.string())}), "no rows"),
    ):
        with pytest.raises(DataError, match=re.escape(sentence)):
            read_spec(TableSpec(nodes=nodes, edges=edges))
    nodes = pa.table({"id": ["a", "b"], "day": pa.array([1, 2], pa.date32()), "x": [1, 2]})
    parquet.write_table(nodes, tmp_path / "n.parquet")
    encoding = read_spec(TableSpec(nodes=tmp_path / "n.parquet", edges=edges)).graph.encoding
    assert encoding is not None
    assert encoding.attributes == ("x",)
    assert "type date32[day] are neither numbers nor names" in encoding.columns[0].why


def test_edges_and_attributes_are_not_both_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gives no attributes and .*edges.csv no edges"):
        read(tmp_path, "id\na\nb\n", "u,v\na,a\n")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"categorical": "x"}, "categorical='x' must be a list of texts"),
        ({"max_categories": 1}, "max_categories=1 must be at least 2"),
        ({"max_categories": True}, "must be a whole number"),
        ({"missing": (1,)}, "must be a list of texts"),
    ],
)
def test_settings(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sentence)):
        TableSpec(edges="e.csv", **settings)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"id": "x", "label": "x"}, "column 'x' is both the id and the label"),
        ({"id": "idd"}, "no column 'idd' for the id. Did you mean 'id'?"),
        ({"ignore": ("z",)}, "no column 'z' for an attribute"),
        ({"source": "target"}, "column 'target' is both ends of an edge"),
        ({"weight": "w"}, "no column 'w' for the weight"),
    ],
)
def test_columns_that_are_not_there(
    settings: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=re.escape(sentence)):
        read(tmp_path, GOOD, EDGES, **settings)
