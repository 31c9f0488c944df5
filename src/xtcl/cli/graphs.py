"""The GRAPH argument, and the tables that may stand in its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from xtcl.cli.bars import Bars
from xtcl.cli.tables import printable
from xtcl.errors import DataError, UsageError, first_few, known_names

if TYPE_CHECKING:
    from xtcl.graph.graph import Graph
    from xtcl.graph.tables.read import TablesRead
    from xtcl.graph.tables.spec import TableSpec


OWN_SHARE = {"nodes": 0.8, "links": 0.9}
"""Of tables of one's own most is to learn from; the rest says how well that went."""


def training_share(name: str | None, task: str, given: float | None) -> float | None:
    """The share of labels or links to train on; None is the paper's, for all but tables."""
    from xtcl.graph.datasets.registry import DATASETS

    known = name is not None and name.lower() in DATASETS
    tables = name is None or Path(name).suffix == ".toml" or Path(name).is_dir()
    return OWN_SHARE[task] if given is None and tables and not known else given


def read_source(
    name: str | None,
    data: Path | None,
    nodes: Path | None,
    edges: Path | None,
    label: str | None,
    notes: Console,
) -> Graph | TablesRead:
    """What the user named: tables, a data set (whatever lies in the folder), or a graph file.

    How far the reading of large tables is, is shown on `notes`.
    """
    from xtcl.graph.datasets import load_dataset
    from xtcl.graph.datasets.registry import DATASETS
    from xtcl.graph.graph import Graph
    from xtcl.graph.tables.read import read_spec

    tables = _given_tables(name, nodes, edges, label)
    if tables is not None:
        return read_spec(tables, Bars(notes))
    if name is None:
        raise UsageError("Name a GRAPH, or give your tables with --nodes and --edges.")
    path = Path(name)
    known = name.lower() in DATASETS
    if not known and (tables := _named_tables(path)) is not None:
        named = tables if label is None else replace(tables, label=label)
        return read_spec(named, Bars(notes))
    if label is not None:
        raise UsageError(f"--label names a column of a table, and '{name}' is none; leave it out.")
    if known:
        return load_dataset(name, data)
    if path.suffix == ".npz" and path.is_file():
        return Graph.load(path)
    if path.exists():
        raise UsageError(
            f"'{name}' is not a graph file. Give tables with --nodes and --edges, or a .toml file "
            "that names them, or what Graph.save wrote."
        )
    if path.suffix in (".npz", ".toml"):
        raise UsageError(
            f"There is no file '{name}'; check the path, or name a data set (see `xtcl datasets`)."
        )
    raise UsageError(
        f"There is no data set '{name}', and no file or folder of that name."
        f"{known_names(name, DATASETS)} For tables of your own give a folder with nodes.csv and "
        "edges.csv, a .toml file that names them, or --nodes nodes.csv --edges edges.csv --label "
        "COLUMN."
    )


def _given_tables(
    name: str | None, nodes: Path | None, edges: Path | None, label: str | None
) -> TableSpec | None:
    from xtcl.graph.tables.spec import TableSpec

    if nodes is None and edges is None:
        return None
    if name is not None:
        raise UsageError(f"Give either the GRAPH '{name}' or --nodes and --edges, not both.")
    if edges is None:
        raise UsageError("--nodes alone is no graph: name the table of links with --edges.")
    return TableSpec(edges=edges, nodes=nodes, label=label)


def _named_tables(path: Path) -> TableSpec | None:
    """The tables of a TOML file or a folder, if that is what `path` is."""
    from xtcl.graph.tables.spec import spec_from_folder, spec_from_toml

    try:
        if path.is_dir():
            return spec_from_folder(path)
        return spec_from_toml(path) if path.suffix == ".toml" and path.is_file() else None
    except OSError as error:  # a name too long to be a path
        raise DataError(f"'{path}' cannot be read: {error.strerror}.") from error


def read_graph(
    name: str | None,
    data: Path | None,
    notes: Console,
    task: str,
    *,
    nodes: Path | None = None,
    edges: Path | None = None,
    label: str | None = None,
) -> Graph:
    """The graph to work on; what was repaired, left out or looks wrong is said on `notes`."""
    from xtcl.graph.graph import Graph
    from xtcl.graph.tables.concerns import concerns
    from xtcl.graph.tables.read import left_out_notes

    read = read_source(name, data, nodes, edges, label, notes)
    told: tuple[str, ...] = ()
    doubts: list[str] = []
    if not isinstance(read, Graph):
        if task == "nodes" and read.graph.labels is None:
            raise UsageError(_which_label(read))
        told = read.notes
        read = read.graph
        doubts = [f"Looks wrong: {sentence}" for sentence in concerns(read, task)]
    for sentence in (*told, *left_out_notes(read.encoding), *read.repairs.sentences(), *doubts):
        notes.print(printable(sentence), markup=False, soft_wrap=True)
    return read


def _which_label(read: TablesRead) -> str:
    encoding = read.graph.encoding
    if encoding is None:
        return "There is no table of nodes, and so no labels: give --nodes, or use --task links."
    likely = sorted(encoding.columns, key=lambda column: column.kind in ("number", "truth"))
    columns = first_few((column.name for column in likely), 10)
    return (
        f"Which column of {read.nodes} holds the classes? Name it with --label (there are: "
        f"{columns}), or use --task links."
    )
