"""From a table and an encoding to attributes: for the nodes of a fit, and for later ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from xtcl.errors import DataError
from xtcl.graph.encoding import CATEGORY, PRESENCE, TRUTH, ColumnEncoding, TableEncoding
from xtcl.graph.tables.columns import (
    FALSE_WORDS,
    TEXT_TYPE,
    TRUE_WORDS,
    as_numbers,
    first_non_number,
    plain_cells,
    text_cells,
    to_floats,
)
from xtcl.graph.tables.ids import check_ids, id_cells, node_ids
from xtcl.graph.tables.sources import Table, byte_progress, need_column, open_table, place
from xtcl.graph.validation import Attributes, FloatArray
from xtcl.progress import Progress

_BLOCK_CELLS = 1 << 24
_MAX_SCALED = 1e30  # float32 ends soon after
_SPARSE_WIDTH, _SPARSE_SHARE = 64, 0.2
"""At least so many attributes, with at most this share of non-zeros, become a sparse matrix."""


def encode_table(table: Table, encoding: TableEncoding, rows: int) -> Attributes:
    """The attributes [rows, D] of the table's nodes; categories not seen before count as missing.

    Rows stream: beside the result, one batch is in memory.
    """
    names = [need_column(table, column.name, "an attribute") for column in encoding.used]
    width = len(encoding.attributes)
    if not width:
        return _frozen(np.zeros((rows, 0), np.float32))
    matrix: FloatArray | None = None
    thin: list[Any] = []
    start, step = 0, max(1, _BLOCK_CELLS // width)
    for batch in table.batches(names):
        for first in range(0, batch.num_rows, step):
            block = _encode(batch.slice(first, step), encoding, table, start)
            if start == 0:
                share = np.count_nonzero(block) / block.size
                if width < _SPARSE_WIDTH or share > _SPARSE_SHARE:
                    matrix = np.empty((rows, width), np.float32)
            if matrix is None:
                thin.append(sparse.csr_array(block))
            else:
                matrix[start : start + len(block)] = block
            start += len(block)
    return _frozen(matrix) if matrix is not None else sparse.csr_array(sparse.vstack(thin))


def _frozen(matrix: FloatArray) -> FloatArray:
    matrix.setflags(write=False)  # so that the graph takes it without a copy
    return matrix


def _encode(batch: Any, encoding: TableEncoding, table: Table, start: int) -> FloatArray:
    block = np.zeros((batch.num_rows, len(encoding.attributes)), np.float32)
    at = 0
    for number, column in enumerate(encoding.used):
        width = len(column.attributes)
        own = block[:, at : at + width]
        array = batch.column(number)
        if column.kind == CATEGORY:
            absent = _put_categories(own, array, column, encoding.missing)
        else:
            values = _values(array, column, encoding.missing, table, start)
            absent = np.isnan(values)
            if column.kind == PRESENCE:
                own[:, 0] = ~absent
            else:
                filled = np.where(absent, column.fill, values)
                own[:, 0] = (filled - column.center) / column.scale
        if column.marks_missing:
            own[:, -1] = absent
        at += width
    return block


def _put_categories(
    own: FloatArray, array: Any, column: ColumnEncoding, missing: Sequence[str]
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    cells = plain_cells(array, missing)
    if cells is None or cells.type != TEXT_TYPE:
        cells = text_cells(array)
    codes = pc.index_in(cells, value_set=pa.array(column.categories, TEXT_TYPE), skip_nulls=True)
    places = np.asarray(pc.fill_null(codes, -1).to_numpy(zero_copy_only=False))
    known = np.flatnonzero(places >= 0)
    own[known, places[known]] = 1
    absent: np.ndarray[Any, np.dtype[np.bool_]] = places < 0
    return absent


def _values(
    array: Any, column: ColumnEncoding, missing: Sequence[str], table: Table, start: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers, truths as 1 and 0, presence as anything; NaN where there is no value."""
    cells = plain_cells(array, missing)
    if cells is None:
        raise DataError(
            f"{table.name}: column {column.name!r} has values of type {array.type}, "
            f"but was a {column.kind} when the encoding was learned."
        )
    if column.kind == PRESENCE:
        return np.where(np.asarray(pc.is_valid(cells)), 1.0, np.nan)
    if column.kind == TRUTH and cells.type == TEXT_TYPE:
        cells = _digits(cells)
    numbers = as_numbers(cells)
    if numbers is None:
        at = first_non_number(cells)
        raise DataError(
            f"{place(table, start + at)}: column {column.name!r} is {str(cells[at])[:40]!r}, but "
            f"was a {column.kind} when the encoding was learned; correct it or leave it empty."
        )
    values = to_floats(numbers)
    extreme = np.flatnonzero(np.abs(values - column.center) > _MAX_SCALED * column.scale)
    if extreme.size:
        raise DataError(
            f"{place(table, start + int(extreme[0]))}: column {column.name!r} is "
            f"{values[extreme[0]]}, too large for an attribute; correct it, or leave it empty."
        )
    return values


def _digits(cells: Any) -> Any:
    """Words such as yes and no as 1 and 0."""
    words = pc.utf8_lower(cells)
    for truths, digit in ((TRUE_WORDS, "1"), (FALSE_WORDS, "0")):
        found = pc.is_in(words, value_set=pa.array(sorted(truths), TEXT_TYPE))
        cells = pc.if_else(found, pa.scalar(digit, TEXT_TYPE), cells)
    return cells


@dataclass(frozen=True)
class NewNodes:
    """Their ids [n], and their attributes [n, D] in the order of the fit's."""

    ids: np.ndarray[Any, Any]
    attributes: Attributes


def encode_nodes(nodes: Any, encoding: TableEncoding, progress: Progress | None = None) -> NewNodes:
    """Read a table (path or frame) by the means, scales and categories of `encoding`.

    It needs the columns that give attributes, in any order; others are not read. A category that
    the fit has not seen counts as missing.
    """
    with byte_progress(progress or Progress(), [(nodes, 2)]) as on_read:
        return _encoded(open_table(nodes, "new nodes", on_read), encoding)


def _encoded(table: Table, encoding: TableEncoding) -> NewNodes:
    own = need_column(table, encoding.id, "the id")
    cells: list[Any] = []
    rows = 0
    for batch in table.batches([own]):
        cells.append(id_cells(batch.column(0), table, own, rows))
        rows += batch.num_rows
    if not rows:
        raise DataError(f"{table.name} has column names, but no rows.")
    ids = node_ids(check_ids(cells, table, own))
    return NewNodes(np.arange(rows) if ids is None else ids, encode_table(table, encoding, rows))
