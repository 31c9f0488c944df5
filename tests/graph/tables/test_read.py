"""Tables become the graph that a plain loop over their cells would make of them."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from small_runs import Recorder
from small_tables import EDGES, NODES, read, write

import xtcl
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.tables import sources
from xtcl.graph.tables import sources as text_file
from xtcl.graph.tables.read import read_spec
from xtcl.graph.tables.spec import TableSpec, spec_from_toml


def dense(graph: Graph) -> np.ndarray:
    given = graph.attributes
    return given if isinstance(given, np.ndarray) else given.toarray()


def assert_same(one: Graph, other: Graph) -> None:
    assert one.fingerprint() == other.fingerprint()
    assert (one.classes, one.encoding) == (other.classes, other.encoding)
    assert np.array_equal(one.labels, other.labels)  # type: ignore[arg-type]
    assert np.array_equal(one.node_ids, other.node_ids)  # type: ignore[arg-type]


def test_the_example_by_hand(tmp_path: Path) -> None:
    found = read(tmp_path, label="topic")
    graph, encoding = found.graph, found.graph.encoding
    assert encoding is not None
    assert encoding.attributes == (
        *("age", "age is missing", "city=Oslo", "city=Rome", "city is missing"),
        *("member", "note"),
    )
    ages = np.array([34, 51, 47, 29, 40])
    table = dense(graph)
    assert np.allclose(table[[0, 2, 3, 4, 5], 0], (ages - ages.mean()) / ages.std())
    assert table[1, 0] == 0
    assert table[:, 1].tolist() == [0, 1, 0, 0, 0, 0]
    assert table[:, 2].tolist() == [0, 1, 0, 0, 1, 1]
    assert table[:, 3].tolist() == [1, 0, 1, 0, 0, 0]
    assert table[:, 4].tolist() == [0, 0, 0, 1, 0, 0]
    assert table[:, 5].tolist() == [1, 0, 1, 0, 1, 0]
    assert table[:, 6].tolist() == [0, 1, 0, 1, 0, 0]
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ["p1", "p2", "p3", "p4", "=cmd()", "p6"]
    assert graph.edges.tolist() == [[0, 1, 2], [1, 5, 4]]
    assert graph.classes == ("cat", "dog")
    assert graph.labels is not None
    assert graph.labels.tolist() == [0, 0, 1, -1, 1, 0]
    repairs = graph.repairs
    assert (repairs.loops_dropped, repairs.duplicates_merged) == (1, 1)
    assert repairs.directions_removed == 2
    assert [note[:24] for note in found.notes] == ["1 id(s) look like formul"]


def as_table(text: str) -> Any:
    """The table as a program would have it, with numbers as numbers."""
    options = arrow_csv.ConvertOptions(strings_can_be_null=True)
    return arrow_csv.read_csv(io.BytesIO(text.encode()), convert_options=options)


def parquet_file(text: str, folder: Path) -> Path:
    parquet.write_table(as_table(text), folder / "table.parquet", row_group_size=2)
    return folder / "table.parquet"


SOURCES: dict[str, Callable[[str, Path], Any]] = {
    "csv": lambda text, folder: write(folder, "a.csv", text),
    "a path as text": lambda text, folder: str(write(folder, "a.csv", text)),
    "bom": lambda text, folder: write(folder, "a.csv", b"\xef\xbb\xbf" + text.encode()),
    "crlf": lambda text, folder: write(folder, "a.csv", text.replace("\n", "\r\n")),
    "tsv": lambda text, folder: write(folder, "a.tsv", text.replace(",", "\t")),
    "semicolons": lambda text, folder: write(folder, "a.csv", text.replace(",", ";")),
    "gzip": lambda text, folder: write(folder, "a.csv.gz", gzip.compress(text.encode())),
    "a lying name": lambda text, folder: write(folder, "a.parquet", text),
    "empty lines": lambda text, folder: write(folder, "a.csv", text.replace("\n", "\n\n")),
    "blanks": lambda text, folder: write(folder, "a.csv", text.replace(",", " , ")),
    "no last line end": lambda text, folder: write(folder, "a.csv", text.rstrip("\n")),
    "parquet": parquet_file,
    "arrow": lambda text, _: as_table(text),
    "pandas": lambda text, _: pd.read_csv(io.StringIO(text)),
    "pandas with an index": lambda text, _: pd.read_csv(io.StringIO(text), index_col=0),
    "polars": lambda text, _: pl.read_csv(io.BytesIO(text.encode())),
    "polars categories": lambda text, _: pl.read_csv(io.BytesIO(text.encode())).with_columns(
        pl.col(pl.String).cast(pl.Categorical)
    ),
}


@pytest.mark.filterwarnings("ignore:.*left out|.*look like formulas:UserWarning")
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_graph(kind: str, tmp_path: Path) -> None:
    expected = read(tmp_path, label="topic").graph
    (tmp_path / "n").mkdir()
    (tmp_path / "e").mkdir()
    nodes, edges = SOURCES[kind](NODES, tmp_path / "n"), SOURCES[kind](EDGES, tmp_path / "e")
    graph = xtcl.read_tables(nodes, edges, label="topic", name=expected.name)
    assert graph.encoding is not None
    assert expected.encoding is not None
    assert graph.encoding.attributes == expected.encoding.attributes
    assert graph.fingerprint() == expected.fingerprint()
    assert np.array_equal(graph.node_ids, expected.node_ids)  # type: ignore[arg-type]
    assert np.array_equal(graph.labels, expected.labels)  # type: ignore[arg-type]


def test_python_warns_of_what_was_left_out(tmp_path: Path) -> None:
    text = NODES.replace("=cmd()", "p5"), EDGES.replace("=cmd()", "p5")
    nodes, edges = write(tmp_path, "n.csv", text[0]), write(tmp_path, "e.csv", text[1])
    with pytest.warns(UserWarning, match="Column 'constant' was left out: it is '1' throughout"):
        graph = xtcl.read_tables(nodes, edges, ignore=["title"])
    assert graph.name == "n"
    with pytest.raises(UsageError, match="The table of edges is a list"):
        xtcl.read_tables(nodes, [1, 2])


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_reading_much_tells_how_far_it_is(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 3000
    table = pa.table({"id": range(rows), "x": np.random.default_rng(0).random(rows)})
    links = pa.table({"u": np.arange(rows), "v": np.arange(rows)[::-1]})
    paths = [tmp_path / f"{name}.{kind}" for name in ("nodes", "edges")]
    for path, written in zip(paths, (table, links), strict=True):
        if kind == "parquet":
            parquet.write_table(written, path)
        else:
            with pa.output_stream(path, compression="gzip" if kind == "csv.gz" else None) as out:
                arrow_csv.write_csv(written, out)
    spec, quiet, progress = TableSpec(paths[1], paths[0]), Recorder(), Recorder()
    read_spec(spec, quiet)
    assert not quiet.stages  # nobody waits for so little
    monkeypatch.setattr(sources, "PROGRESS_FROM_BYTES", 1)
    monkeypatch.setattr(sources, "MEGABYTE", 1)
    monkeypatch.setattr(text_file, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr("xtcl.graph.tables.sources.BATCH_ROWS", 1000)
    read_spec(spec, progress)
    [(name, steps, done)] = progress.stages
    assert name.startswith("reading tables")
    assert steps == 2 * paths[0].stat().st_size + paths[1].stat().st_size
    assert sum(done) == pytest.approx(steps, rel=0.01)
    assert len(done) >= 9


@pytest.mark.parametrize(
    ("file", "title"),
    [
        ("people.csv", "people"),
        ("nodes.csv", "club"),
        ("Nodes.tsv.gz", "club"),
        ("graph.toml", "club"),
        ("club-of-1977.toml", "club-of-1977"),
    ],
)
def test_a_graph_is_called_after_what_tells_it_apart(
    file: str, title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "club"
    folder.mkdir()
    monkeypatch.chdir(folder)
    if file.endswith(".toml"):
        write(folder, file, 'nodes = "nodes.csv"\nedges = "edges.csv"\n')
        assert spec_from_toml(Path(file)).title == title
    else:
        assert TableSpec("edges.csv", file).title == title
        assert TableSpec(file).title == title
        assert TableSpec("edges.csv", file, name="mine").title == "mine"


@pytest.mark.parametrize("block", [300, 1000, 20_000])
def test_blocks_change_nothing(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"n{i},{rng.normal():.4f},{'abc'[rng.integers(3)]},{rng.integers(9)},{rng.integers(3)}"
        for i in range(900)
    ]
    rows[700] = 'n700,,"a",word,'  # far into the file, a number turns out to be text
    nodes = "id,x,kind,grade,label\n" + "\n".join(rows)
    ends = rng.integers(900, size=(2000, 2))
    edges = "u,v\n" + "\n".join(f"n{u},n{v}" for u, v in ends)
    expected = read(tmp_path, nodes, edges, label="label").graph
    monkeypatch.setattr(text_file, "BLOCK_BYTES", block)
    graph = read(tmp_path, nodes, edges, label="label").graph
    assert graph.encoding is not None
    assert expected.encoding is not None
    assert graph.encoding.attributes == expected.encoding.attributes
    assert "grade=word" in graph.encoding.attributes
    assert np.allclose(dense(graph), dense(expected), atol=1e-6)
    assert np.array_equal(graph.edges, expected.edges)
    assert np.array_equal(graph.labels, expected.labels)  # type: ignore[arg-type]


CELLS = st.one_of(
    st.sampled_from(["", "NA", "yes", "no", "0", "1", "red", "blue", "a b", "=1+1", 'q"q', "x\ny"]),
    st.integers(-5, 5).map(str),
    st.floats(-1e6, 1e6).map(lambda x: f"{x:.3g}"),
)


def slow_encoding(column: list[str]) -> list[tuple[float, ...]] | None:
    """What the rules make of a column, one cell at a time; None where it is left out."""
    cells = [cell.strip() for cell in column]
    missing = [cell.lower() in ("", "na") for cell in cells]
    known = [cell for cell, gone in zip(cells, missing, strict=True) if not gone]
    if not known:
        return None
    mark = any(missing)
    try:
        numbers = [float(cell) for cell in known]
    except ValueError:
        numbers = []
    if len(set(numbers or known)) == 1:
        return [(float(not gone),) for gone in missing] if mark else None
    if numbers:
        mean = sum(numbers) / len(numbers)
        spread = math.sqrt(sum((x - mean) ** 2 for x in numbers) / len(numbers))
        plain = set(numbers) <= {0.0, 1.0}
        at, scale = (0.0, 1.0) if plain else (mean, spread)
        values = [
            ((mean if gone else float(cell)) - at) / scale
            for cell, gone in zip(cells, missing, strict=True)
        ]
        rows: list[tuple[float, ...]] = [(value,) for value in values]
    else:
        kinds = sorted(set(known))
        if len(kinds) == len(known) or 2 * len(kinds) > len(known) >= 20:
            return None
        if {kind.lower() for kind in kinds} <= {"yes", "no"}:
            words = {"yes": 1.0, "no": 0.0}
            rows = [(words.get(cell.lower(), 0.5),) for cell in cells]
        else:
            rows = [tuple(float(cell == kind) for kind in kinds) for cell in cells]
    return [(*row, float(gone)) if mark else row for row, gone in zip(rows, missing, strict=True)]


@given(
    table=st.integers(2, 25).flatmap(
        lambda rows: st.lists(st.lists(CELLS, min_size=rows, max_size=rows), min_size=1, max_size=4)
    )
)
def test_columns_as_a_plain_loop_reads_them(table: list[list[str]], tmp_path: Path) -> None:
    rows = len(table[0])
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["id", *(f"c{at}" for at in range(len(table)))])
    writer.writerows([f"n{row}", *(column[row] for column in table)] for row in range(rows))
    graph = read(tmp_path, text.getvalue(), "u,v\nn0,n1\n").graph
    blocks = [slow_encoding(column) for column in table]
    expected = [np.array(block).reshape(rows, -1) for block in blocks if block is not None]
    wanted = np.concatenate([np.zeros((rows, 0)), *expected], axis=1)
    assert dense(graph).shape == wanted.shape
    assert np.allclose(dense(graph), wanted, atol=1e-4)


def test_ids_stay_what_they_are(tmp_path: Path) -> None:
    def ids(*names: str) -> Any:
        nodes = "id,x\n" + "".join(f"{name},{at}\n" for at, name in enumerate(names))
        return read(tmp_path, nodes, f"u,v\n{names[0]},{names[1]}\n").graph.node_ids

    assert ids("7", "-3", "1000000007").tolist() == [7, -3, 1000000007]
    assert ids("0", "1", "2") is None
    assert ids("1", "0").tolist() == [1, 0]
    assert ids("07", "7").tolist() == ["07", "7"]
    assert ids("NA", "null").tolist() == ["NA", "null"]
    assert ids("9" * 30, "1").tolist() == ["9" * 30, "1"]
    assert ids("ä", "日本", "\U0001f600").tolist() == ["ä", "日本", "\U0001f600"]
    assert ids("1.0", "1").tolist() == ["1.0", "1"]


def test_float_ids_of_a_frame_are_integers() -> None:
    nodes = pd.DataFrame({"id": [10.0, 20.0, 30.0], "x": [1.5, 2.5, 9.0]})
    graph = xtcl.read_tables(nodes, pa.table({"u": [10, 30], "v": [20, 10]}))
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == [10, 20, 30]
    with pytest.raises(DataError, match=r"the frame of edges, row 1: there is no node '10\.5'"):
        xtcl.read_tables(nodes, pa.table({"u": [10.5], "v": [20.0]}))


def test_nodes_of_the_edges_alone(tmp_path: Path) -> None:
    graph = read(tmp_path, None, "a,b\nx,y\ny,z\n").graph
    assert graph.node_ids is not None
    assert sorted(graph.node_ids) == ["x", "y", "z"]
    assert (graph.num_edges, graph.num_attributes, graph.encoding) == (2, 0, None)
    with pytest.raises(DataError, match="label='t' is a column of a table of nodes"):
        read(tmp_path, None, "a,b\nx,y\n", label="t")


def test_wide_and_mostly_zero_is_sparse(tmp_path: Path) -> None:
    words = np.random.default_rng(0).random((50, 80)) < 0.05
    words[0] = True
    head = "id," + ",".join(f"w{at}" for at in range(80))
    rows = [f"n{at}," + ",".join("01"[int(w)] for w in row) for at, row in enumerate(words)]
    graph = read(tmp_path, "\n".join([head, *rows]), "u,v\nn0,n1\n").graph
    assert not isinstance(graph.attributes, np.ndarray)
    assert np.array_equal(dense(graph), words)
