"""All that `xtcl check` finds, as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from xtcl.cli.graphs import OWN_SHARE

if TYPE_CHECKING:
    from xtcl.graph.graph import Graph
    from xtcl.graph.tables.encoding import ColumnEncoding
    from xtcl.graph.tables.read import TablesRead


def described(graph: Graph, tables: TablesRead | None = None) -> dict[str, Any]:
    """What is understood, repaired and doubted, and what a fit would take."""
    from xtcl.graph.tables.concerns import concerns

    columns = () if graph.encoding is None else graph.encoding.columns
    tasks = [*(["nodes"] if graph.has_labels else []), *(["links"] if graph.num_edges else [])]
    found: dict[str, Any] = {
        "graph": graph.summary(),
        "tables": None,
        "columns": [asdict(column) | {"becomes": _becomes(column)} for column in columns],
        "notes": [] if tables is None else list(tables.notes),
        "repaired": graph.repairs.sentences(),
        "concerns": concerns(graph),
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
    from xtcl.experiments.evaluate import PAPER_SHARE
    from xtcl.planning.estimate import estimate_fit

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
