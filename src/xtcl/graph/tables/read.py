"""`read_tables`: tables of nodes and edges as a Graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xtcl.errors import DataError, first_few
from xtcl.graph.encoding import AS_ASKED, LEFT_OUT, TableEncoding
from xtcl.graph.graph import Graph
from xtcl.graph.tables.columns import MISSING_WORDS
from xtcl.graph.tables.edges import LinkColumns, read_links
from xtcl.graph.tables.encode import encode_table
from xtcl.graph.tables.ids import node_ids
from xtcl.graph.tables.nodes import nodes_of_edges, read_nodes
from xtcl.graph.tables.sources import BytesRead, Table, byte_progress, open_table
from xtcl.graph.tables.spec import MAX_CATEGORIES, TableSpec, link_columns
from xtcl.graph.validation import MAX_NODES, canonical_edges
from xtcl.progress import Progress


@dataclass(frozen=True)
class TablesRead:
    """A graph, and notes on the tables it was read from."""

    graph: Graph
    nodes: str
    edges: str
    link_columns: LinkColumns
    notes: tuple[str, ...] = ()


def read_tables(
    nodes: Any,
    edges: Any,
    *,
    label: str | None = None,
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    categorical: Sequence[str] = (),
    ignore: Sequence[str] = (),
    missing: Sequence[str] = MISSING_WORDS,
    max_categories: int = MAX_CATEGORIES,
    scale: bool = True,
    name: str | None = None,
) -> Graph:
    """A graph from a table of nodes and a table of edges; docs/tables.md has the rules.

    Args:
        nodes: path of a CSV, TSV or Parquet file, or a pandas or Polars frame; one row per node.
            None takes the nodes from the edges.
        edges: the same, one row per edge.
        label: the column with the classes; empty cells are unknown.
        id: the column with the ids; by default one called id or node, else the first.
        source: the column of one end of an edge; by default source, src, from or u, where there
            is a target, dst, to or v beside it; else the first.
        target: the column of the other end; else the second.
        weight: the column of weights; by default one called weight. Weights are checked and then
            not used: a row of weight 0 is no edge, and all others count the same.
        categorical: columns of numbers that are names, such as a department's number.
        ignore: columns to leave out.
        missing: words, in any case, that stand for no value; an empty cell always does.
        max_categories: a column with more different texts is left out.
        scale: bring numbers to mean 0 and standard deviation 1.
        name: how messages and reports call the graph.

    What was left out or looks wrong comes as warnings; `graph.encoding` has the encoding of each
    column, `graph.repairs` what was repaired in the edges.

    Raises:
        DataError: a table cannot be used; the message names file, line and remedy.

    """
    read = read_spec(
        TableSpec(
            edges,
            nodes,
            label,
            id,
            source,
            target,
            weight,
            tuple(categorical),
            tuple(ignore),
            tuple(missing),
            max_categories,
            scale,
            name,
        )
    )
    for note in (*read.notes, *left_out_notes(read.graph.encoding)):
        warnings.warn(note, stacklevel=2)
    return read.graph


def left_out_notes(encoding: TableEncoding | None) -> list[str]:
    """A sentence for each column that gives no attributes, unless the user asked for that."""
    columns = () if encoding is None else encoding.columns
    left_out = (c for c in columns if c.kind == LEFT_OUT and c.why != AS_ASKED)
    return [f"Column {column.name!r} was left out: {column.why}." for column in left_out]


def read_spec(spec: TableSpec, progress: Progress | None = None) -> TablesRead:
    """Read the tables. No warnings are issued: the notes are in the result."""
    # Nodes are read for what their columns hold, then for their attributes.
    passes = [(spec.edges, 2 if spec.nodes is None else 1), (spec.nodes, 2)]
    with byte_progress(progress or Progress(), passes) as on_read:
        return _read(spec, on_read)


def _read(spec: TableSpec, on_read: BytesRead) -> TablesRead:
    table = open_table(spec.edges, "edges", on_read)
    columns = link_columns(table, spec)
    if spec.nodes is None:
        nodes = nodes_of_edges(table, columns, spec)
    else:
        nodes = read_nodes(open_table(spec.nodes, "nodes", on_read), spec)
    count = len(nodes.ids)
    if not 2 <= count <= MAX_NODES:
        raise DataError(f"{nodes.table.name} has {count} node(s); a graph needs at least two.")
    links = read_links(table, columns, nodes.ids, nodes.table.name)
    edges, repairs = canonical_edges(links.pairs, count)
    encoding = nodes.encoding or TableEncoding("", None, (), spec.missing)
    if not edges.size and not encoding.attributes:
        raise DataError(
            f"{nodes.table.name} gives no attributes and {table.name} no edges; there is nothing "
            "to learn from. Give at least one of them."
        )
    graph = Graph(
        attributes=encode_table(nodes.table, encoding, count),
        edges=edges,
        labels=nodes.labels,
        classes=nodes.classes,
        node_ids=node_ids(nodes.ids),
        repairs=repairs,
        name=spec.title,
        encoding=nodes.encoding,
    )
    notes = nodes.notes + _link_notes(table, columns, links.zero_weights)
    return TablesRead(graph, nodes.table.name, table.name, columns, tuple(notes))


def _link_notes(table: Table, columns: LinkColumns, zeros: int) -> list[str]:
    notes = []
    if columns.weight is not None:
        notes.append(
            f"The weights in column {columns.weight!r} of {table.name} are not used: the method "
            "uses links, not their strength."
        )
    if zeros:
        notes.append(f"{zeros:,} row(s) of {table.name} have the weight 0 and are no links.")
    others = [name for name in table.columns if name not in columns.names]
    if others:
        notes.append(
            f"{table.name} has further columns, which are not used: {first_few(map(repr, others))}."
        )
    return notes
