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

from xtcl.cli import options
from xtcl.cli.console import plain_table, printable, reported

if TYPE_CHECKING:
    from xtcl.graph.encoding import ColumnEncoding
    from xtcl.graph.graph import Graph
    from xtcl.graph.tables.read import TablesRead
    from xtcl.planning.memory_plan import MemoryPlan


MANY_ALIKE = 5


@reported
def check(
    graph: options.GraphName = None,
    nodes: options.NodesOption = None,
    edges: options.EdgesOption = None,
    label: options.LabelOption = None,
    data: options.DataOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show what is understood of a graph, what looks wrong, and what a fit would take.

    Nothing is fitted or written.

    Example: xtcl check --nodes nodes.csv --edges edges.csv --label topic
    """
    from xtcl.graph.graph import Graph

    read = options.read_source(graph, data, nodes, edges, label, Console(stderr=True))
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
    _list(console, "A fit on a CPU would take about (an estimate)", _estimates(found["estimates"]))


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
    if not estimates:
        return []
    lines = [
        f"for {made['task']}: {made['gigabytes']:.1f} GB of memory, and "
        f"{duration(made['relation_seconds'])} for the relations"
        for made in estimates
    ]
    is_long = any(made["relation_seconds"] > LONG_SECONDS for made in estimates)
    return [*lines, TIMED, *([SHORTER] if is_long else [])]


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
    from xtcl.model_selection.evaluation import PAPER_SHARE
    from xtcl.planning.memory_plan import NO_LIMIT, expected_sizes, plan_stages
    from xtcl.planning.timing import relation_seconds
    from xtcl.tasks.training_data import TrainingData

    sizes = expected_sizes(
        graph, task, (options.OWN_TABLES_SHARE if own_tables else PAPER_SHARE)[task]
    )
    return {
        "task": task,
        "relation_seconds": three_digits(relation_seconds(TrainingData(graph), sizes)),
        "gigabytes": round(plan_stages(sizes, NO_LIMIT).peak / 2**30, 2),
    }


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


LONG_SECONDS = 3600
"""Seconds from which a faster way is suggested."""


SHORTER = "For less, give fit --cap 32: a relation then counts a node's 32 best alone."


TIMED = "A few rows of each relation were timed on this machine. Training and the head come on top."


def three_digits(seconds: float) -> float:
    """`seconds` with three significant digits, so that a small graph does not take 0."""
    return float(f"{seconds:.3g}")


def duration(seconds: float) -> str:
    """Seconds in words, in whole minutes: a few timed rows give no more."""
    if seconds < 60:
        return "less than a minute"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} hours"


def print_plan(plan: MemoryPlan, budget: int | None, nodes: int, relation_seconds: float) -> None:
    """What was decided, the peak of each stage, and how long the relations take."""
    console = Console()

    def print_line(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True, highlight=False)

    for line in decisions(plan, budget, nodes):
        print_line(line)
    table = plain_table("stage", "peak memory", numbers=["peak memory"])
    for stage in plan.stages:
        table.add_row(stage.name, f"{stage.peak / GB:.2f} GB")
    table.add_row("whole fit", f"{plan.peak / GB:.2f} GB")
    console.print()
    console.print(table)
    print_line(f"\nrelations: {duration(relation_seconds)}")
    print_line(TIMED)
    if relation_seconds > LONG_SECONDS and plan.recipe.sampler.cap is None:
        print_line(SHORTER)


def decisions(plan: MemoryPlan, budget: int | None, nodes: int) -> Iterator[str]:
    """One line for each thing that was decided."""
    from xtcl.planning.memory_plan import format_bytes

    cap = plan.recipe.sampler.cap
    allowed = "no budget given" if budget is None else f"{budget / GB:.2f} GB"
    yield f"memory:       {allowed}"
    yield f"mode:         {'exact' if cap is None else f'top-k, the {cap} best of a relation'}"
    some = f"{plan.block_rows:,} nodes at a time"
    yield f"blocks:       {'all nodes at once' if plan.block_rows >= nodes else some}"
    for number, encoder_config in enumerate(plan.recipe.ensembles[0].encoders, start=1):
        batch = encoder_config.training.batch.neighbours
        way = "the whole graph in every step"
        if batch is not None:
            limits = f", up to {batch[0]} neighbours each" if batch else ""
            way = f"mini-batches of {encoder_config.training.anchors:,} anchors{limits}"
        yield f"encoder {number}:    {way}"
    if plan.store:
        yield f"to the store: about {format_bytes(plan.store)}"
