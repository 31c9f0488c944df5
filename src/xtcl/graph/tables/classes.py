"""The label column: names of classes, unknown where a cell is empty."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xtcl.errors import DataError
from xtcl.graph.arrays import IntArray
from xtcl.graph.tables.cells import TEXT, as_numbers, text_cells, to_floats
from xtcl.graph.tables.table import Table, place

MOST_CLASSES = 1000
WHOLE = r"^-?(0|[1-9][0-9]{0,17})(\.0*)?$"


def label_cells(array: Any, missing: Sequence[str], table: Table, column: str) -> Any:
    """The labels of a batch as a dictionary of texts, null where unknown."""
    cells = text_cells(array)
    if cells is None:
        raise DataError(
            f"{table.name}: label column {column!r} has values of type {array.type}; classes are "
            "names or integers."
        )
    unknown = pc.is_in(pc.utf8_lower(cells), value_set=pa.array(missing, TEXT))
    return pc.if_else(unknown, pa.scalar(None, TEXT), cells).dictionary_encode()


def read_classes(
    batches: Sequence[Any], table: Table, column: str
) -> tuple[IntArray, tuple[Hashable, ...]]:
    """Codes [V], -1 where unknown, and the class of each code, sorted."""
    joined = pa.chunked_array(batches).unify_dictionaries()
    names = joined.chunk(0).dictionary
    codes = np.concatenate(
        [np.asarray(pc.fill_null(chunk.indices, -1)) for chunk in joined.chunks]
    ).astype(np.int64)
    _check_count(codes, names, table, column)
    values = _values(names, codes, table, column)
    classes = tuple(sorted(set(values)))
    place = {value: at for at, value in enumerate(classes)}
    return np.array([*(place[value] for value in values), -1])[codes], classes


def _check_count(codes: IntArray, names: Any, table: Table, column: str) -> None:
    labelled = np.flatnonzero(codes >= 0)
    if not labelled.size:
        raise DataError(
            f"{table.name}: no node has a label in column {column!r}; fill in some, or name "
            "another column."
        )
    first = int(labelled[0])
    if len(names) == 1:
        raise DataError(
            f"{place(table, first)}: label column {column!r} is {str(names[0])!r} wherever it is "
            "filled, and there is nothing to tell apart; name another column, or leave the label "
            "out and predict links."
        )
    if len(names) > MOST_CLASSES:
        raise DataError(
            f"{place(table, first)}: label column {column!r} has {len(names):,} classes for "
            f"{labelled.size:,} labelled nodes, and at most {MOST_CLASSES:,} can be learned; name "
            "another column, or group rare classes."
        )


def _values(names: Any, codes: IntArray, table: Table, column: str) -> list[Any]:
    """Integers where all are whole numbers (pandas writes 1.0 beside blanks), else the texts."""
    if pc.all(pc.match_substring_regex(names, WHOLE)).as_py():
        return [int(name.partition(".")[0]) for name in names.to_pylist()]
    numbers = as_numbers(names)
    measured = np.zeros(0) if numbers is None else to_floats(numbers)
    odd = np.flatnonzero(measured != np.floor(measured))
    if odd.size:
        row = int(np.flatnonzero(codes == odd[0])[0])
        raise DataError(
            f"{place(table, row)}: label {str(names[int(odd[0])])!r} in column {column!r} is a "
            "measurement, not a class; bin the values first."
        )
    texts: list[Any] = names.to_pylist()
    return texts
