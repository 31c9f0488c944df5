"""What a column holds, and what becomes of it: its profile, its encoding, and its cells."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xtcl.errors import DataError
from xtcl.graph.encoding import CATEGORY, LEFT_OUT, NUMBER, PRESENCE, TRUTH, ColumnEncoding
from xtcl.graph.tables.sources import Table, place

MISSING_WORDS = ("", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none")
TRUE_WORDS = frozenset({"true", "yes", "t", "y"})
FALSE_WORDS = frozenset({"false", "no", "f", "n"})
TEXT_TYPE = pa.large_string()
_NUMBER_PATTERN = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_MOSTLY_NUMBERS = 0.95
"""Where this share of the values are numbers, the others are taken for mistakes."""
_MIN_VALUES = 20
_LONGEST_CELL = 40
_MAX_NUMBER = 1e100
"""Larger numbers could overflow when they are squared and summed."""


@dataclass
class Profile:
    """One column so far; `limit` is how many different texts it may have as a category."""

    name: str
    limit: int
    categorical: bool = False
    rows: int = 0
    missing: int = 0
    type_name: str = ""
    unusable: bool = False
    first_text: tuple[int, str] | None = None  # the first cell that is no number: row and text
    first_formula_cell: tuple[int, str] | None = None
    numbers: int = 0
    first_extreme: tuple[int, float] | None = None
    texts: set[str] | None = field(default_factory=set)  # None once there are too many
    mean: float = 0.0
    squares: float = 0.0  # of the deviations from the mean
    low: float = np.inf
    high: float = -np.inf
    zero_or_one: bool = True
    counts_rows: bool = True  # each value is one more than that of the row before
    first_value: float | None = None

    @property
    def present(self) -> int:
        """How many nodes have a value."""
        return self.rows - self.missing

    @property
    def numeric(self) -> bool:
        """Whether every value so far is a number."""
        return self.first_text is None and not self.categorical

    def add(self, array: Any, missing: Sequence[str]) -> None:
        """Take in the next rows."""
        start, self.rows = self.rows, self.rows + len(array)
        cells = plain_cells(array, missing)
        if cells is not None and self.categorical:
            cells = pc.if_else(pc.is_null(cells), pa.scalar(None, TEXT_TYPE), text_cells(array))
        self.type_name = str(array.type)
        if cells is None:
            self.unusable = True
            return
        before = self.rows - len(array) - self.missing
        self.missing += cells.null_count
        if cells.type == TEXT_TYPE and not self.numeric:
            self._add_texts(cells, start)
        if self.numeric:
            numbers = as_numbers(cells)
            if numbers is None:
                at = first_non_number(cells)
                self.first_text = (start + at, str(cells[at]))
                self._add_texts(cells, start)
            else:
                self.numbers += len(cells) - cells.null_count
                self._add_numbers(to_floats(numbers), start, before)
        if self.texts is not None and cells.type == TEXT_TYPE:
            self.texts |= set(pc.unique(pc.drop_null(cells)).slice(0, self.limit + 1).to_pylist())
            if len(self.texts) > self.limit:
                self.texts = None

    def _add_texts(self, cells: Any, start: int) -> None:
        self.numbers += _count_numbers(cells)
        at = _first_formula_cell(cells) if self.first_formula_cell is None else None
        if at is not None:
            self.first_formula_cell = (start + at, str(cells[at]))

    def _add_numbers(self, values: np.ndarray[Any, Any], start: int, before: int) -> None:
        """Merge the moments of these values into those of `before` earlier ones (Chan et al.)."""
        extreme = np.flatnonzero(np.abs(values) > _MAX_NUMBER)
        if extreme.size:
            self.first_extreme = self.first_extreme or (
                start + int(extreme[0]),
                float(values[extreme[0]]),
            )
            return
        if self.first_value is None:
            self.first_value = float(values[0]) if values.size else None
        if self.first_value is not None:
            counted = self.first_value + np.arange(start, start + values.size)
            self.counts_rows &= bool((values == counted).all())
        present = values[~np.isnan(values)]
        if not present.size:
            return
        self.low, self.high = min(self.low, present.min()), max(self.high, present.max())
        self.zero_or_one &= bool(((present == 0) | (present == 1)).all())
        mean, count = float(present.mean()), before + present.size
        gap = mean - self.mean
        self.squares += float(((present - mean) ** 2).sum())
        self.squares += gap * gap * before * present.size / count
        self.mean += gap * present.size / count


def infer_encoding(profile: Profile, table: Table, *, scale: bool) -> ColumnEncoding:
    """The encoding of a column; refuses what nothing can be computed with."""
    return replace(_encoding_of(profile, table, scale), warning=_number_warning(profile, table))


def _encoding_of(profile: Profile, table: Table, scale: bool) -> ColumnEncoding:
    if profile.unusable:
        return _left_out(
            profile,
            f"values of type {profile.type_name} are neither numbers nor names; turn them into one",
        )
    if not profile.present:
        return _left_out(profile, "it has no values")
    if not profile.numeric:
        return _of_texts(profile, table)
    if profile.first_extreme is not None:
        row, value = profile.first_extreme
        raise DataError(
            f"{place(table, row)}: column {profile.name!r} is {value}; numbers must be finite and "
            f"at most {_MAX_NUMBER:.0e}. Leave the cell empty where the value is not known."
        )
    spread = math.sqrt(profile.squares / profile.present)
    if profile.low == profile.high or spread == 0:
        return _constant(profile, f"{profile.low:g}")
    if profile.counts_rows and profile.present >= _MIN_VALUES:
        return _left_out(profile, "it counts the rows, as an index does")
    if profile.zero_or_one:
        return ColumnEncoding(profile.name, TRUTH, fill=profile.mean, missing=profile.missing)
    return ColumnEncoding(
        profile.name,
        NUMBER,
        center=profile.mean if scale else 0.0,
        scale=spread if scale else 1.0,
        fill=profile.mean,
        missing=profile.missing,
    )


def _of_texts(profile: Profile, table: Table) -> ColumnEncoding:
    texts = profile.texts
    if texts is None:
        return _left_out(
            profile,
            f"it has more than {profile.limit} different texts{_first_text(profile, table)}, as "
            f"ids and free text have; for a category, raise max_categories in a TOML file",
        )
    if len(texts) == 1:
        return _constant(profile, next(iter(texts)))
    if profile.categorical:
        return _category(profile, texts)
    # With fewer values, a name for nearly every node may still be a category.
    own_names = 2 * len(texts) > profile.present >= _MIN_VALUES
    if own_names or len(texts) == profile.present:
        return _left_out(
            profile,
            f"it has {len(texts)} different texts in {profile.present} nodes"
            f"{_first_text(profile, table)}, as ids and free text have; for a category, name it "
            "under categorical",
        )
    if {text.lower() for text in texts} <= TRUE_WORDS | FALSE_WORDS:
        # How often each word occurs was not counted: a missing one lies halfway.
        return ColumnEncoding(profile.name, TRUTH, fill=0.5, missing=profile.missing)
    return _category(profile, texts)


def _category(profile: Profile, texts: set[str]) -> ColumnEncoding:
    return ColumnEncoding(
        profile.name, CATEGORY, categories=tuple(sorted(texts)), missing=profile.missing
    )


def _constant(profile: Profile, value: str) -> ColumnEncoding:
    if profile.missing:
        return ColumnEncoding(profile.name, PRESENCE, missing=profile.missing)
    return _left_out(profile, f"it is {value!r} throughout")


def _first_text(profile: Profile, table: Table) -> str:
    """The first text, which explains a column of numbers with a word in it."""
    if profile.first_text is None:
        return ""
    row, text = profile.first_text
    return f" (the first: {text[:_LONGEST_CELL]!r} in {table.spot(row)})"


def _left_out(profile: Profile, why: str) -> ColumnEncoding:
    return ColumnEncoding(profile.name, LEFT_OUT, missing=profile.missing, why=why)


def _number_warning(profile: Profile, table: Table) -> str:
    """A sentence about the first such cell, with a remedy; empty where there is none.

    A formula among numbers has no value that could be read, and is refused.
    """
    if profile.first_text is None or profile.categorical:
        return ""
    row, text = profile.first_text
    what = f"{place(table, row)}: column {profile.name!r} is {text[:_LONGEST_CELL]!r}"
    if profile.present >= _MIN_VALUES and profile.numbers >= _MOSTLY_NUMBERS * profile.present:
        among = f"where {profile.numbers:,} of {profile.present:,} values are numbers"
        if text.startswith("="):
            raise DataError(
                f"{what}, a formula, {among}; write its value, or leave the cell empty."
            )
        return (
            f"{what}, {among}, so that all of them are read as names. Correct the cell or leave it "
            "empty; for names, list the column under categorical in a TOML file."
        )
    if _DECIMAL_COMMA.fullmatch(text):
        return f"{what}, a number with a decimal comma, which is read as a name. Write a point."
    if profile.first_formula_cell is not None:
        row, text = profile.first_formula_cell
        return (
            f"{place(table, row)}: column {profile.name!r} is {text[:_LONGEST_CELL]!r}, which "
            "looks like a formula and is read as a name. If it is one, write its value."
        )
    return ""


def _first_formula_cell(cells: Any) -> int | None:
    """The place of the first text cell that begins as a formula does."""
    at = pc.index(pc.starts_with(cells, "="), True).as_py()
    return None if at < 0 else int(at)


def _count_numbers(cells: Any) -> int:
    """How many of the text cells are numbers."""
    return int(pc.sum(pc.match_substring_regex(cells, _NUMBER_PATTERN)).as_py() or 0)


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
    absent = pc.is_in(pc.utf8_lower(text), value_set=pa.array(missing, TEXT_TYPE))
    return pc.if_else(absent, pa.scalar(None, TEXT_TYPE), text)


def text_cells(array: Any) -> Any | None:
    """Cells as trimmed text, null where empty: ids, labels and categories are names."""
    array = _decoded(array)
    kind = array.type
    if pa.types.is_floating(kind):
        text = _whole_or_decimal(pc.cast(array, pa.float64()))
    elif pa.types.is_integer(kind):
        text = pc.cast(array, TEXT_TYPE)
    else:
        text = _text(array)
    if text is None:
        return None
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, TEXT_TYPE), text)


def _decoded(array: Any) -> Any:
    if not pa.types.is_dictionary(array.type):
        return array
    values = array.dictionary
    if pa.types.is_string_view(values.type):  # Arrow cannot take from these yet
        values = pc.cast(values, TEXT_TYPE)
    return pc.take(values, array.indices)


def _whole_or_decimal(numbers: Any) -> Any:
    """3.0 is the id 3: pandas turns integers with gaps into floats."""
    known = pc.if_else(pc.is_finite(numbers), numbers, pa.scalar(None, pa.float64()))
    whole = pc.and_(pc.equal(known, pc.floor(known)), pc.less(pc.abs(known), 2.0**53))
    integers = pc.cast(pc.if_else(whole, known, pa.scalar(0.0)), pa.int64())
    return pc.if_else(whole, pc.cast(integers, TEXT_TYPE), pc.cast(known, TEXT_TYPE))


def _text(array: Any) -> Any | None:
    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return pc.cast(array, TEXT_TYPE)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pc.utf8_trim_whitespace(array if kind == TEXT_TYPE else pc.cast(array, TEXT_TYPE))
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
