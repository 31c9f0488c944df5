"""The first pass over the nodes: their ids, their labels, and what every column holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xtcl.errors import DataError
from xtcl.graph.encoding import AS_ASKED, LEFT_OUT, ColumnEncoding, TableEncoding
from xtcl.graph.tables.columns import Profile, infer_encoding
from xtcl.graph.tables.edges import LinkColumns, ids_of_links
from xtcl.graph.tables.ids import check_ids, formula_note, id_cells, label_cells, read_classes
from xtcl.graph.tables.sources import Table, need_column
from xtcl.graph.tables.spec import TableSpec, id_column
from xtcl.graph.validation import IntArray


@dataclass(frozen=True)
class NodeRows:
    """The content of a node table; `encoding` is None where the nodes came from the edges."""

    table: Table
    ids: Any
    notes: list[str]
    encoding: TableEncoding | None = None
    labels: IntArray | None = None
    classes: tuple[Any, ...] = field(default_factory=tuple)


def read_nodes(table: Table, spec: TableSpec) -> NodeRows:
    """Read every row once, and infer the encoding of each column."""
    own, label = id_column(table, spec), spec.label
    if label is not None and need_column(table, label, "the label") == own:
        raise DataError(f"{table.name}: column {own!r} is both the id and the label; name another.")
    for name in (*spec.categorical, *spec.ignore):
        need_column(table, name, "an attribute")
    roles = [own] if label is None else [own, label]
    others = [name for name in table.columns if name not in {*roles, *spec.ignore}]
    profiles = [Profile(name, spec.max_categories, name in spec.categorical) for name in others]
    ids: list[Any] = []
    labels: list[Any] = []
    start = 0
    for batch in table.batches([*roles, *others]):
        ids.append(id_cells(batch.column(0), table, own, start))
        if label is not None:
            labels.append(label_cells(batch.column(1), spec.missing, table, label))
        for profile, array in zip(profiles, batch.columns[len(roles) :], strict=True):
            profile.add(array, spec.missing)
        start += batch.num_rows
    if not start:
        raise DataError(f"{table.name} has column names, but no rows.")
    checked = check_ids(ids, table, own)
    codes, classes = (None, ()) if label is None else read_classes(labels, table, label)
    encodings = {
        profile.name: infer_encoding(profile, table, scale=spec.scale) for profile in profiles
    }
    encodings |= {name: ColumnEncoding(name, LEFT_OUT, why=AS_ASKED) for name in spec.ignore}
    columns = tuple(encodings[name] for name in table.columns if name in encodings)
    encoding = TableEncoding(own, label, columns, spec.missing)
    return NodeRows(table, checked, formula_note(checked, table), encoding, codes, classes)


def nodes_of_edges(table: Table, columns: LinkColumns, spec: TableSpec) -> NodeRows:
    """The nodes that edges name; they have neither attributes nor labels."""
    for what in ("label", "id"):
        if getattr(spec, what) is not None:
            raise DataError(
                f"{what}={getattr(spec, what)!r} is a column of a table of nodes, and there is "
                "none; name one."
            )
    ids = check_ids(ids_of_links(table, columns), table, columns.source)
    return NodeRows(table, ids, formula_note(ids, table))
