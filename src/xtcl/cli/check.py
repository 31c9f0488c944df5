"""`xtcl check`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from xtcl.cli.errors import reported
from xtcl.cli.graphs import read_source
from xtcl.cli.options import (
    DataOption,
    EdgesOption,
    GraphName,
    JsonOption,
    LabelOption,
    NodesOption,
)
from xtcl.cli.tables import plain_table

if TYPE_CHECKING:
    from xtcl.graph.graph import Graph
    from xtcl.graph.tables.encoding import ColumnEncoding
    from xtcl.graph.tables.read import TablesRead


@reported
def check(
    graph: GraphName = None,
    nodes: NodesOption = None,
    edges: EdgesOption = None,
    label: LabelOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is understood of a graph, what looks wrong, and what a fit would take.

    Nothing is fitted or written.

    Example: xtcl check --nodes nodes.csv --edges edges.csv --label topic
    """
    from xtcl.graph.graph import Graph

    read = read_source(graph, data, nodes, edges, label)
    found = described(read) if isinstance(read, Graph) else described(read.graph, read)
    if as_json:
        typer.echo(json.dumps(found))
        return
    console = Console()
    lines = "\n".join(_printable(line) for line in _understood(found))
    console.print(lines, markup=False, soft_wrap=True, highlight=False)
    if found["columns"]:
        table = plain_table("column", "missing", "what becomes of it", numbers=["missing"])
        for column in found["columns"]:
            cells = (column["name"][:40], f"{column['missing']:,}", column["becomes"])
            table.add_row(*(Text(_printable(cell)) for cell in cells))  # names are no markup
        console.print()
        console.print(table)
    for title, key in (("Noted", "notes"), ("Repaired", "repaired"), ("Looks wrong", "concerns")):
        _list(console, title, found[key])
    taken = _estimates(found["estimates"])
    _list(console, "A fit would take about (an estimate, for two CPU cores)", taken)


def described(graph: Graph, tables: TablesRead | None = None) -> dict[str, Any]:
    """All that `xtcl check` says, as plain values."""
    from xtcl.graph.tables.concerns import concerns
    from xtcl.tasks.fit_estimate import estimate_fit

    columns = () if graph.encoding is None else graph.encoding.columns
    tasks = [*(["nodes"] if graph.has_labels else []), *(["links"] if graph.num_edges else [])]
    found: dict[str, Any] = {
        "graph": graph.summary(),
        "tables": None,
        "columns": [asdict(column) | {"becomes": _becomes(column)} for column in columns],
        "notes": [] if tables is None else list(tables.notes),
        "repaired": graph.repairs.sentences(),
        "concerns": concerns(graph),
        "estimates": [asdict(estimate_fit(graph, task)) for task in tasks],
    }
    if tables is not None:
        encoding = graph.encoding
        found["tables"] = {
            "nodes": tables.nodes,
            "edges": tables.edges,
            "id": None if encoding is None else encoding.id,
            "label": None if encoding is None else encoding.label,
            **asdict(tables.link_columns),
        }
    return found


def _understood(found: dict[str, Any]) -> list[str]:
    graph, tables = found["graph"], found["tables"]
    if tables is None:
        lines = [f"{graph['name']}: {graph['nodes']:,} nodes, {graph['edges']:,} links"]
    else:
        ids = "in the edges" if tables["id"] is None else f"in column '{tables['id']}'"
        lines = [
            f"{tables['nodes']}: {graph['nodes']:,} nodes, ids {ids}",
            f"{tables['edges']}: {graph['edges']:,} link(s), from column '{tables['source']}' to "
            f"'{tables['target']}', without direction or weight",
        ]
    lines.append(
        f"{graph['attributes']:,} attributes a node, {graph['mean_degree']:.1f} links on average"
    )
    if graph["classes"]:
        lines.append(f"{graph['classes']:,} classes, known for {graph['labelled_nodes']:,} nodes")
    return lines


def _becomes(column: ColumnEncoding) -> str:
    marked = ", and one that marks the missing" if column.marks_missing else ""
    if column.kind == "number":
        scaled = f"(x - {column.center:.4g}) / {column.scale:.4g}"
        return ("a number" if column.scale == 1 else f"a number: {scaled}") + marked
    if column.kind == "truth":
        return f"1 or 0{marked}"
    if column.kind == "category":
        shown = ", ".join(column.categories[:4]) + (", ..." if len(column.categories) > 4 else "")
        return f"{len(column.categories)} attributes, 1 or 0: {shown}{marked}"
    return (
        "1 where it is filled, else 0" if column.kind == "presence" else f"left out: {column.why}"
    )


def _estimates(estimates: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"for {made['task']}: {_duration(made['seconds'])} and {made['gigabytes']:.1f} GB of memory"
        for made in estimates
    ]


def _printable(text: str) -> str:
    """The text, with what a terminal would obey written out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _list(console: Console, title: str, sentences: Sequence[str]) -> None:
    if sentences:
        console.print(f"\n{title}", highlight=False)
        for sentence in sentences:
            console.print(
                f"  {_printable(sentence)}", markup=False, soft_wrap=True, highlight=False
            )
