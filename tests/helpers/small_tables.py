"""Small tables on disk, for the tests of the readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xtcl.graph.tables.read import TablesRead, read_spec
from xtcl.graph.tables.spec import TableSpec

NODES = """id,age,city,member,title,constant,note,topic
p1,34,Rome,yes,A title,1,,cat
p2,,Oslo,no,Another,1,x,cat
p3,51,Rome,yes,A third,1,,dog
p4,47,,no,A fourth,1,x,
=cmd(),29,Oslo,yes,A fifth,1,,dog
p6,40,Oslo,no,A sixth,1,,cat
"""
EDGES = """source,target
p1,p2
p2,p1
p1,p1
p3,=cmd()
p3,=cmd()
p6,p2
"""


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(
    folder: Path, nodes: str | bytes | None = NODES, edges: str | bytes = EDGES, **settings: Any
) -> TablesRead:
    """Write the tables and read them."""
    paths = {
        "nodes": None if nodes is None else write(folder, "nodes.csv", nodes),
        "edges": write(folder, "edges.csv", edges),
    }
    return read_spec(TableSpec(**{**paths, **settings}))
