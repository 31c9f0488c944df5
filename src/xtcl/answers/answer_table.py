"""Answers as a table: for pandas, CSV, Parquet and JSON alike."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from xtcl.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MARK = "'"
MARKED = ("=", "+", "-", "@", MARK, "\t", "\r")
"""How a text begins that a spreadsheet might run, or take our mark for."""
BEGINS = f"^({'|'.join(map(re.escape, MARKED))})"
NEGATIVE = r"^-\d+(\.\d+)?\z"
"""A text that begins so and is a plain number."""
DIGITS = 6
"""Of a chance: further ones mean nothing."""


@dataclass(frozen=True)
class AnswerTable:
    """Columns of equal length, of which the first names nodes.

    Texts are object arrays with None where there is nothing, or arrays of strings.
    """

    columns: dict[str, np.ndarray[Any, Any]]

    def frame(self) -> pd.DataFrame:
        """A pandas frame, indexed by the first column."""
        try:
            import pandas as pd
        except ImportError as missing:
            raise UsageError('Frames need pandas: pip install "xtcl[frames]".') from missing
        first = next(iter(self.columns))
        return pd.DataFrame(self.columns).set_index(first)

    def arrow(self) -> pa.Table:
        """An Arrow table."""
        import pyarrow as pa

        return pa.table(
            {
                name: pa.array(column.tolist()) if column.dtype.kind in "OU" else column
                for name, column in self.columns.items()
            }
        )

    def csv(self) -> bytes:
        """CSV that a spreadsheet may open: texts in quotes, numbers without.

        A text that begins as a formula does gets an apostrophe in front, but for plain numbers, and
        so does one that begins with an apostrophe, so that taking off the first one gives the text
        again.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow.csv import write_csv

        def safe(texts: Any) -> Any:
            marked = pc.replace_substring_regex(texts, BEGINS, rf"{MARK}\1")
            return pc.if_else(pc.match_substring_regex(texts, NEGATIVE), texts, marked)

        table = self.arrow()
        columns = [safe(c) if pa.types.is_string(c.type) else c for c in table.columns]
        names = safe(pa.array(table.column_names)).to_pylist()
        out = BytesIO()
        write_csv(pa.Table.from_arrays(columns, names=names), out)
        return out.getvalue()

    def rows(self) -> list[dict[str, Any]]:
        """A plain mapping for each row."""
        names = list(self.columns)
        values = (column.tolist() for column in self.columns.values())
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def chances(values: np.ndarray) -> np.ndarray:
    """Chances with the digits that mean something."""
    return np.round(np.asarray(values, dtype=np.float64), DIGITS)
