"""Node ids and class names as Arrow columns: checked, and looked up a batch at a time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xtcl.errors import DataError
from xtcl.graph.tables.columns import TEXT_TYPE, as_numbers, text_cells, to_floats
from xtcl.graph.tables.sources import Table, place
from xtcl.graph.validation import IntArray

_MAX_ID_LENGTH = 256
_IDS_PER_CHUNK = 1 << 16
_INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
_FORMULA = r"^([=@]|[+-][^0-9.])"
_MAX_CLASSES = 1000
_WHOLE_NUMBER = r"^-?(0|[1-9][0-9]{0,17})(\.0*)?$"


def id_cells(array: Any, table: Table, column: str, start: int) -> Any:
    """The ids in a column as text; `start` is the row number of the first."""
    cells = text_cells(array)
    if cells is None:
        raise DataError(
            f"{table.name}: column {column!r} has values of type {array.type}, and ids are "
            "integers or text."
        )
    if cells.null_count:
        row = start + int(np.flatnonzero(np.asarray(pc.is_null(cells)))[0])
        raise DataError(
            f"{place(table, row)}: no id in column {column!r}; give one, or remove the row."
        )
    return cells


def check_ids(batches: Sequence[Any], table: Table, column: str) -> Any:
    """All ids as one array; refuses repeated and endless ones."""
    ids = pa.chunked_array(batches, TEXT_TYPE).combine_chunks()
    long = np.flatnonzero(np.asarray(pc.greater(pc.utf8_length(ids), _MAX_ID_LENGTH)))
    if long.size:
        raise DataError(
            f"{place(table, int(long[0]))}: an id of {len(str(ids[int(long[0])]))} characters; "
            f"ids have at most {_MAX_ID_LENGTH}."
        )
    zero = np.flatnonzero(np.asarray(pc.match_substring(ids, "\0")))
    if zero.size:
        raise DataError(f"{place(table, int(zero[0]))}: an id with a zero byte in it; remove it.")
    first = find_ids(ids, ids)
    again = np.flatnonzero(first != np.arange(len(ids)))
    if again.size:
        row = int(again[0])
        raise DataError(
            f"{place(table, row)}: id {str(ids[row])!r} was there before "
            f"({place(table, int(first[row]))}); {again.size} row(s) of {table.name} repeat an id "
            f"of column {column!r}. Keep one row per node."
        )
    return ids


def find_ids(wanted: Any, ids: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The place of each wanted id among `ids`, -1 where it is not there."""
    places = pc.fill_null(pc.index_in(wanted, value_set=ids), -1)
    return np.asarray(places.to_numpy(zero_copy_only=False), np.int64)


def node_ids(ids: Any) -> np.ndarray[Any, Any] | None:
    """Integers where all are written as such, else strings; None for 0..V-1 in order."""
    if pc.all(pc.match_substring_regex(ids, _INTEGER)).as_py():
        numbers = np.array(pc.cast(ids, pa.int64()))
        return None if np.array_equal(numbers, np.arange(len(numbers))) else numbers
    names = np.empty(len(ids), f"U{pc.max(pc.utf8_length(ids)).as_py()}")
    for start in range(0, len(ids), _IDS_PER_CHUNK):  # few Python strings at a time
        names[start : start + _IDS_PER_CHUNK] = ids.slice(start, _IDS_PER_CHUNK).to_pylist()
    return names


def formula_note(ids: Any, table: Table) -> list[str]:
    """A sentence about ids that a spreadsheet would run."""
    found = np.flatnonzero(np.asarray(pc.match_substring_regex(ids, _FORMULA)))
    if not found.size:
        return []
    row = int(found[0])
    return [
        f"{found.size} id(s) look like formulas ({place(table, row)}: {str(ids[row])[:40]!r}); "
        "they are kept as text, but a spreadsheet may run them."
    ]


def label_cells(array: Any, missing: Sequence[str], table: Table, column: str) -> Any:
    """The labels of a batch as a dictionary of texts, null where unknown."""
    cells = text_cells(array)
    if cells is None:
        raise DataError(
            f"{table.name}: label column {column!r} has values of type {array.type}; classes are "
            "names or integers."
        )
    unknown = pc.is_in(pc.utf8_lower(cells), value_set=pa.array(missing, TEXT_TYPE))
    return pc.if_else(unknown, pa.scalar(None, TEXT_TYPE), cells).dictionary_encode()


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
    if len(names) > _MAX_CLASSES:
        raise DataError(
            f"{place(table, first)}: label column {column!r} has {len(names):,} classes for "
            f"{labelled.size:,} labelled nodes, and at most {_MAX_CLASSES:,} can be learned; name "
            "another column, or group rare classes."
        )


def _values(names: Any, codes: IntArray, table: Table, column: str) -> list[Any]:
    """Integers where all are whole numbers (pandas writes 1.0 beside blanks), else the texts."""
    if pc.all(pc.match_substring_regex(names, _WHOLE_NUMBER)).as_py():
        return [int(name.partition(".")[0]) for name in names.to_pylist()]
    numbers = as_numbers(names)
    measured = np.zeros(0) if numbers is None else to_floats(numbers)
    fractional = np.flatnonzero(measured != np.floor(measured))
    if fractional.size:
        row = int(np.flatnonzero(codes == fractional[0])[0])
        raise DataError(
            f"{place(table, row)}: label {str(names[int(fractional[0])])!r} in column {column!r} "
            "is a measurement, not a class; bin the values first."
        )
    texts: list[Any] = names.to_pylist()
    return texts
