"""`xtcl check`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from xtcl.cli.console import plain_table, printable, reported
from xtcl.cli.options import (
    OWN_SHARE,
    DataOption,
    EdgesOption,
    GraphName,
    JsonOption,
    LabelOption,
    NodesOption,
    read_source,
)

if TYPE_CHECKING:
    from xtcl.graph.encoding import ColumnEncoding
    from xtcl.graph.graph import Graph
    from xtcl.graph.tables.read import TablesRead
    from xtcl.planning.memory_plan import MemoryPlan


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


def described(graph: Graph, tables: TablesRead | None = None) -> dict[str, Any]:
    """What is understood, repaired and doubted, and what a fit would take."""
    from xtcl.graph.tables.checks import data_warnings

    columns = () if graph.encoding is None else graph.encoding.columns
    tasks = [*(["nodes"] if graph.has_labels else []), *(["links"] if graph.num_edges else [])]
    found: dict[str, Any] = {
        "graph": graph.summary(),
        "tables": None,
        "columns": [asdict(column) | {"becomes": _becomes(column)} for column in columns],
        "notes": [] if tables is None else list(tables.notes),
        "repaired": graph.repairs.sentences(),
        "concerns": data_warnings(graph),
        "estimates": [_estimate(graph, task, tables is not None) for task in tasks],
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


def _estimate(graph: Graph, task: str, own_tables: bool) -> dict[str, Any]:
    from xtcl.model_selection.evaluate import PAPER_SHARE
    from xtcl.planning.memory_plan import estimate_fit

    plan = estimate_fit(graph, task, (OWN_SHARE if own_tables else PAPER_SHARE)[task])
    gigabytes = round(plan.peak / 2**30, 2)
    return {"task": task, "seconds": round(plan.seconds or 0.0, 1), "gigabytes": gigabytes}


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


GB = 2**30


LONG = 3600


SHORTER = "For less, give fit --cap 32: a relation then counts a node's 32 best alone."


def duration(seconds: float | None) -> str:
    """Seconds in words, as roughly as they are known."""
    if seconds is None:
        return "unknown"
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def print_plan(plan: MemoryPlan, budget: int | None, nodes: int) -> None:
    """What was decided, then a row for each stage: the seconds are those of two CPU cores or a GPU.

    Beside a GPU there is a host, which needs memory, too.
    """
    console = Console()
    for line in decisions(plan, budget, nodes):
        console.print(line, markup=False, soft_wrap=True, highlight=False)
    heads = ("peak memory",) if plan.host_peak is None else ("peak memory", "host memory")
    table = plain_table("stage", "time", *heads, numbers=heads)
    for stage in plan.stages:
        table.add_row(stage.name, duration(stage.seconds), *_sizes(stage.peak, stage.host_peak))
    table.add_row("whole fit", duration(plan.seconds), *_sizes(plan.peak, plan.host_peak))
    console.print()
    console.print(table)
    if plan.first_fit:
        more = f"The first fit of a process takes up to {plan.first_fit:.0f} seconds more."
        console.print(f"\n{more}", markup=False, soft_wrap=True, highlight=False)
    if (plan.seconds or 0) > LONG and plan.recipe.sampler.cap is None:
        console.print(f"\n{SHORTER}", markup=False, soft_wrap=True, highlight=False)


def _sizes(*peaks: int | None) -> list[str]:
    return [f"{peak / GB:.2f} GB" for peak in peaks if peak is not None]


def decisions(plan: MemoryPlan, budget: int | None, nodes: int) -> Iterator[str]:
    """One line for each thing that was decided."""
    from xtcl.planning.memory_plan import format_bytes

    cap = plan.recipe.sampler.cap
    allowed = "no budget given" if budget is None else f"{budget / GB:.2f} GB"
    yield f"memory:       {allowed}"
    yield f"mode:         {'exact' if cap is None else f'top-k, the {cap} best of a relation'}"
    some = f"{plan.block_rows:,} nodes at a time"
    yield f"blocks:       {'all nodes at once' if plan.block_rows >= nodes else some}"
    for number, member in enumerate(plan.recipe.ensembles[0].encoders, start=1):
        batch = member.training.batch.neighbours
        way = "the whole graph in every step"
        if batch is not None:
            most = f", up to {batch[0]} neighbours each" if batch else ""
            way = f"mini-batches of {member.training.anchors:,} anchors{most}"
        yield f"encoder {number}:    {way}"
    if plan.store:
        yield f"to the store: about {format_bytes(plan.store)}"
