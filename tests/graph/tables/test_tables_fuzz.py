"""Whatever is in the files, only our own errors come out of the readers."""

from __future__ import annotations

import contextlib
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from small_tables import EDGES, NODES, write

from xtcl.errors import XTCLError
from xtcl.graph.graph import Graph
from xtcl.graph.tables.checks import data_warnings
from xtcl.graph.tables.read import read_spec
from xtcl.graph.tables.spec import TableSpec, spec_from_toml

pytestmark = pytest.mark.slow


GOOD = {"nodes": NODES.encode(), "edges": EDGES.encode()}
MANY = settings(max_examples=16 * settings().max_examples)  # 400, or 4800 in the thorough profile
NASTY = (
    *("", " ", "NA", "nan", "inf", "-inf", "1e400", "-0", "9" * 40, "0x1f", "1_000", "1,5"),
    *("=cmd()", "+1", "@x", "<script>", "'", '"', '""', "\\", "\n", "\r\n", "\t", ";", "|"),
    *("\ufeff", "\u202e", "\u2028", "\x00", "\x1b[31m", "ä", "\U0001f600", "x" * 300, "true"),
)


def outcome(folder: Path, nodes: bytes, edges: bytes, **given: Any) -> Graph | None:
    """The graph, checked, or None where the tables were refused with a sentence."""
    paths = write(folder, "e.csv", edges), write(folder, "n.csv", nodes)
    try:
        graph = read_spec(TableSpec(*paths, **given)).graph
    except XTCLError:
        return None
    assert np.isfinite(graph.attributes.sum())
    assert graph.encoding is not None
    assert len(graph.encoding.attributes) == graph.num_attributes
    data_warnings(graph)
    return graph


@MANY
@given(raw=st.binary(max_size=300), which=st.sampled_from(["nodes", "edges"]))
def test_any_bytes(raw: bytes, which: str, tmp_path: Path) -> None:
    outcome(tmp_path, **{**GOOD, which: raw})


@MANY
@given(data=st.data(), which=st.sampled_from(["nodes", "edges"]), zipped=st.booleans())
def test_changed_files(data: st.DataObject, which: str, zipped: bool, tmp_path: Path) -> None:
    raw = bytearray(gzip.compress(GOOD[which], mtime=0) if zipped else GOOD[which])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "insert", "remove"]))
        if kind == "flip":
            raw[at] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del raw[at + 1 :]
        elif kind == "insert":
            raw[at:at] = data.draw(st.sampled_from(NASTY)).encode()
        elif len(raw) > 1:
            del raw[at]
    outcome(tmp_path, **{**GOOD, which: bytes(raw)}, label="topic")


@MANY
@given(
    rows=st.lists(st.lists(st.sampled_from(NASTY), min_size=3, max_size=3), max_size=12),
    names=st.lists(st.sampled_from(("id", "x", "topic", *NASTY)), min_size=3, max_size=3),
    label=st.booleans(),
)
def test_nasty_cells(rows: list[list[str]], names: list[str], label: bool, tmp_path: Path) -> None:
    quoted = [",".join('"' + c.replace('"', '""') + '"' for c in row) for row in [names, *rows]]
    nodes = "\n".join(quoted).encode()
    outcome(tmp_path, nodes, EDGES.encode(), label=names[1].strip() if label else None)


COLUMNS = st.one_of(
    st.lists(st.one_of(st.none(), st.floats()), min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), st.sampled_from(NASTY)), min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), st.binary(max_size=3)), min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), st.dates()), min_size=4, max_size=4),
    st.lists(st.lists(st.integers(0, 3), max_size=2), min_size=4, max_size=4),
    st.lists(st.decimals(-9, 9, places=2), min_size=4, max_size=4),
)


@MANY
@given(ids=COLUMNS, first=COLUMNS, second=COLUMNS, label=st.booleans(), categorical=st.booleans())
def test_typed_columns(
    ids: list[Any], first: list[Any], second: list[Any], label: bool, categorical: bool
) -> None:
    table = pa.table({"id": ids, "a": first, "b": second})
    edges = pa.table({"u": ids, "v": ids[::-1]})
    chosen = {"label": "b" if label else None, "categorical": ("a",) if categorical else ()}
    try:
        graph = read_spec(TableSpec(nodes=table, edges=edges, **chosen)).graph  # type: ignore[arg-type]
    except XTCLError:
        return
    assert np.isfinite(graph.attributes.sum())


@pytest.fixture(scope="module")
def parquet_bytes() -> bytes:
    target = io.BytesIO()
    table = pa.table({"id": ["p1", "p2", "p3", "p6", "=cmd()"], "x": [1.0, 2, 3, 4, 5]})
    parquet.write_table(table, target)
    return target.getvalue()


@MANY
@given(data=st.data())
def test_changed_parquet(data: st.DataObject, parquet_bytes: bytes, tmp_path: Path) -> None:
    raw = bytearray(parquet_bytes)
    at = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        raw[at] ^= data.draw(st.integers(1, 255))
    else:
        del raw[at:]
    outcome(tmp_path, bytes(raw), EDGES.encode())


TOML = st.one_of(
    st.text(max_size=60),
    st.builds(
        lambda key, value: f'edges = "e.csv"\n{key} = {value}\n',
        st.sampled_from(["nodes", "label", "scale", "max_categories", "ignore", "missing", "odd"]),
        st.sampled_from(["1", '"n.csv"', "true", "[]", '["a"]', "[1]", "{}", "1.5", "1979-05-27"]),
    ),
)


@MANY
@given(text=TOML)
def test_any_toml(text: str, tmp_path: Path) -> None:
    write(tmp_path, "n.csv", NODES)
    write(tmp_path, "e.csv", EDGES)
    path = write(tmp_path, "graph.toml", text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(XTCLError):
        read_spec(spec_from_toml(path))
