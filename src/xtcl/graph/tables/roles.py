"""Which column is the id, which are the ends of an edge: by name where given, else by habit."""

from __future__ import annotations

from xtcl.errors import DataError
from xtcl.graph.tables.links import LinkColumns
from xtcl.graph.tables.spec import TableSpec
from xtcl.graph.tables.table import Table, need_column

IDS = ("id", "node", "node_id", "nodeid")
ENDS = (("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("node1", "node2"))
WEIGHT = "weight"


def id_column(table: Table, spec: TableSpec) -> str:
    """The column named, else one called id, else the first."""
    if spec.id is not None:
        return need_column(table, spec.id, "the id")
    by_name = {name.lower(): name for name in reversed(table.columns)}
    return next((by_name[name] for name in IDS if name in by_name), table.columns[0])


def link_columns(table: Table, spec: TableSpec) -> LinkColumns:
    """The columns named, else a usual pair of names, else the first two."""
    if len(table.columns) < 2:
        raise DataError(
            f"{table.name} has one column, {table.columns[0]!r}, and an edge has two ends; "
            "separate them by commas or tabs."
        )
    by_name = {name.lower(): name for name in reversed(table.columns)}
    habits = (pair for pair in ENDS if set(pair) <= by_name.keys())
    low, high = next(((by_name[a], by_name[b]) for a, b in habits), table.columns[:2])
    source = low if spec.source is None else need_column(table, spec.source, "the source")
    target = high if spec.target is None else need_column(table, spec.target, "the target")
    if source == target:
        raise DataError(
            f"{table.name}: column {source!r} is both ends of an edge; name source and target."
        )
    weight = by_name.get(WEIGHT)
    if spec.weight is not None:
        weight = need_column(table, spec.weight, "the weight")
    return LinkColumns(source, target, None if weight in (source, target) else weight)
