"""What a column holds, found batch by batch in one pass and in little memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xtcl.graph.tables.cells import (
    TEXT,
    as_numbers,
    first_non_number,
    plain_cells,
    text_cells,
    to_floats,
)
from xtcl.graph.tables.odd_cells import count_numbers, first_formula

LARGEST = 1e100
"""Numbers beyond it would overflow when they are squared and summed."""


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
    first_formula: tuple[int, str] | None = None
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
            cells = pc.if_else(pc.is_null(cells), pa.scalar(None, TEXT), text_cells(array))
        self.type_name = str(array.type)
        if cells is None:
            self.unusable = True
            return
        before = self.rows - len(array) - self.missing
        self.missing += cells.null_count
        if cells.type == TEXT and not self.numeric:
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
        if self.texts is not None and cells.type == TEXT:
            self.texts |= set(pc.unique(pc.drop_null(cells)).slice(0, self.limit + 1).to_pylist())
            if len(self.texts) > self.limit:
                self.texts = None

    def _add_texts(self, cells: Any, start: int) -> None:
        self.numbers += count_numbers(cells)
        at = first_formula(cells) if self.first_formula is None else None
        if at is not None:
            self.first_formula = (start + at, str(cells[at]))

    def _add_numbers(self, values: np.ndarray[Any, Any], start: int, before: int) -> None:
        """Merge the moments of these values into those of `before` earlier ones (Chan et al.)."""
        extreme = np.flatnonzero(np.abs(values) > LARGEST)
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
