"""`xtcl check`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from xtcl.cli.checked import described
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
from xtcl.cli.plan_table import LONG, SHORTER, duration
from xtcl.cli.tables import plain_table, printable

MANY_ALIKE = 5


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

    read = read_source(graph, data, nodes, edges, label, Console(stderr=True))
    found = described(read) if isinstance(read, Graph) else described(read.graph, read)
    if as_json:
        typer.echo(json.dumps(found))
        return
    console = Console()
    lines = "\n".join(printable(line) for line in _understood(found))
    console.print(lines, markup=False, soft_wrap=True, highlight=False)
    if found["columns"]:
        console.print()
        console.print(_columns(found["columns"]))
    for title, key in (("Noted", "notes"), ("Repaired", "repaired"), ("Looks wrong", "concerns")):
        _list(console, title, found[key])
    taken = _estimates(found["estimates"])
    _list(console, "A fit would take about (an estimate, for two CPU cores)", taken)


def _columns(columns: Sequence[dict[str, Any]]) -> Table:
    """A row for each column; neighbours that are treated alike share one."""
    table = plain_table("column", "missing", "what becomes of it", numbers=["missing"])
    for (missing, becomes), alike in groupby(columns, key=itemgetter("missing", "becomes")):
        names = [column["name"][:40] for column in alike]
        if len(names) > MANY_ALIKE:
            names = [f"{names[0]} ... {names[-1]} ({len(names):,} columns)"]
        for name in names:
            # Text, because names are no markup.
            table.add_row(*(Text(printable(cell)) for cell in (name, f"{missing:,}", becomes)))
    return table


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


def _estimates(estimates: Sequence[dict[str, Any]]) -> list[str]:
    lines = [
        f"for {made['task']}: {duration(made['seconds'])} and {made['gigabytes']:.1f} GB of memory"
        for made in estimates
    ]
    return [*lines, SHORTER] if any(made["seconds"] > LONG for made in estimates) else lines


def _list(console: Console, title: str, sentences: Sequence[str]) -> None:
    if sentences:
        console.print(f"\n{title}", highlight=False)
        for sentence in sentences:
            console.print(f"  {printable(sentence)}", markup=False, soft_wrap=True, highlight=False)
