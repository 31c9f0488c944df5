"""The cells of a column as Arrow arrays of one of two kinds: trimmed text, or numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MISSING_WORDS = ("", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none")
TEXT = pa.large_string()


def plain_cells(array: Any, missing: Sequence[str]) -> Any | None:
    """Text or doubles, null where there is no value; None for a type that is neither."""
    array = _decoded(array)
    kind = array.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = pc.cast(array, pa.float64(), safe=False)
        return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
    text = _text(array)
    if text is None:
        return None
    absent = pc.is_in(pc.utf8_lower(text), value_set=pa.array(missing, TEXT))
    return pc.if_else(absent, pa.scalar(None, TEXT), text)


def text_cells(array: Any) -> Any | None:
    """Cells as trimmed text, null where empty: ids, labels and categories are names."""
    array = _decoded(array)
    kind = array.type
    if pa.types.is_floating(kind):
        text = _whole_or_decimal(pc.cast(array, pa.float64()))
    elif pa.types.is_integer(kind):
        text = pc.cast(array, TEXT)
    else:
        text = _text(array)
    return None if text is None else pc.if_else(pc.equal(text, ""), pa.scalar(None, TEXT), text)


def _decoded(array: Any) -> Any:
    if not pa.types.is_dictionary(array.type):
        return array
    values = array.dictionary
    if pa.types.is_string_view(values.type):  # Arrow cannot take from these yet
        values = pc.cast(values, TEXT)
    return pc.take(values, array.indices)


def _whole_or_decimal(numbers: Any) -> Any:
    """3.0 is the id 3: pandas turns integers with gaps into floats."""
    known = pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))
    whole = pc.and_(pc.equal(known, pc.floor(known)), pc.less(pc.abs(known), 2.0**53))
    integers = pc.cast(pc.if_else(whole, known, pa.scalar(0.0)), pa.int64())
    return pc.if_else(whole, pc.cast(integers, TEXT), pc.cast(known, TEXT))


def _text(array: Any) -> Any | None:
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return pc.cast(array, TEXT)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pc.utf8_trim_whitespace(array if kind == TEXT else pc.cast(array, TEXT))
    return None


def as_numbers(cells: Any) -> Any | None:
    """The cells as doubles, or None where one of them is no number."""
    try:
        return pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        return None


def first_non_number(cells: Any) -> int:
    """The place of the first cell that is no number; there must be one."""
    low, high = 0, len(cells)
    while high - low > 1:  # the first half that cannot be read holds it
        middle = (low + high) // 2
        if as_numbers(cells.slice(low, middle - low)) is None:
            high = middle
        else:
            low = middle
    return low


def to_floats(numbers: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A numpy array with NaN where there is no value."""
    filled = pc.fill_null(numbers, float("nan"))
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.float64)
