"""The table of edges: two columns of ids, looked up a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xtcl.errors import DataError
from xtcl.graph.tables.columns import (
    TEXT_TYPE,
    as_numbers,
    first_non_number,
    plain_cells,
    to_floats,
)
from xtcl.graph.tables.ids import find_ids, id_cells
from xtcl.graph.tables.sources import Table, place
from xtcl.graph.validation import IntArray


@dataclass(frozen=True)
class LinkColumns:
    """The columns of an edge table that are read."""

    source: str
    target: str
    weight: str | None

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [self.source, self.target, *([] if self.weight is None else [self.weight])]


@dataclass(frozen=True)
class EdgeRows:
    """Pairs [2, E] of places among the ids, and how many rows had the weight 0."""

    pairs: IntArray
    zero_weights: int = 0


def read_links(table: Table, columns: LinkColumns, ids: Any, nodes: str) -> EdgeRows:
    """The edges between known nodes; refuses ids that `nodes` does not have."""
    parts: list[IntArray] = []
    unknown, first_unknown, zeros = 0, None, 0
    # A look-up hashes all ids first, which is worth it for many rows only.
    for start, source, target, batch in _ends(table, columns, rows=3 * len(ids)):
        pairs = find_ids(pa.chunked_array([source, target]), ids).reshape(2, -1)
        lost = np.flatnonzero((pairs < 0).any(axis=0))
        if lost.size:
            unknown += lost.size
            at = int(lost[0])
            end = source if pairs[0, at] < 0 else target
            first_unknown = first_unknown or (start + at, str(end[at]))
        if columns.weight is not None:
            kept = _weighted(batch.column(2), table, columns.weight, start)
            zeros += int((~kept).sum())
            pairs = pairs[:, kept]
        parts.append(pairs)
    if first_unknown is not None:
        row, name = first_unknown
        raise DataError(
            f"{place(table, row)}: there is no node {name[:80]!r} in {nodes}; {unknown:,} row(s) "
            f"of {table.name} name unknown nodes. Add these nodes, or remove the rows."
        )
    pairs = np.concatenate(parts, axis=1) if parts else np.zeros((2, 0), np.int64)
    return EdgeRows(pairs, zeros)


def _weighted(
    array: Any, table: Table, column: str, start: int
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows are links: those whose weight is not 0. Negative weights and text are refused."""
    cells = plain_cells(array, ("",))
    numbers = None if cells is None else as_numbers(cells)
    if numbers is None:
        row = start + (0 if cells is None else first_non_number(cells))
        raise DataError(
            f"{place(table, row)}: the weight in column {column!r} is no number; correct it, or "
            "give the column another name."
        )
    values = to_floats(numbers)
    wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if wrong.size:
        raise DataError(
            f"{place(table, start + int(wrong[0]))}: the weight in column {column!r} is "
            f"{values[wrong[0]]}; weights are finite and not negative. Remove such rows, or give "
            "the column another name."
        )
    return np.asarray(values != 0)


def ids_of_links(table: Table, columns: LinkColumns) -> list[Any]:
    """Every id that an edge names, in the order in which they come."""
    seen = pa.array([], TEXT_TYPE)
    for _, source, target, _ in _ends(table, columns):
        seen = pc.unique(pa.chunked_array([seen, source, target])).cast(TEXT_TYPE)
    return [seen]


def _ends(table: Table, columns: LinkColumns, rows: int = 0) -> Iterator[tuple[int, Any, Any, Any]]:
    """For batches of `rows` or more: the first row, the ids at both ends, and the batch itself."""
    start = 0
    for batch in _joined(table.batches(columns.names), rows):
        source = id_cells(batch.column(0), table, columns.source, start)
        target = id_cells(batch.column(1), table, columns.target, start)
        yield start, source, target, batch
        start += batch.num_rows


def _joined(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Batches joined until each has `rows`, but for the last."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= rows:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)
