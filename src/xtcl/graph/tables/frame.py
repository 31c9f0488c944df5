"""pandas and Polars frames and Arrow tables, through Arrow's own door."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from xtcl.errors import DataError


class FrameTable:
    """Anything that can be read as an Arrow table; a named index of pandas is a column."""

    def __init__(self, frame: Any, name: str) -> None:
        self.name = name
        try:
            self.table = _from_pandas(frame) if _is_pandas(frame) else pa.table(frame)
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = "; ".join(str(part) for part in error.args)
            raise DataError(
                f"{name} cannot be read ({reason}); give every column values of one kind."
            ) from error
        self.columns = tuple(str(column) for column in self.table.column_names)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Batches of rows."""
        yield from self.table.select([self.columns.index(name) for name in columns]).to_batches()

    def spot(self, row: int) -> str:
        """The row, counted from 1."""
        return f"row {row + 1}"


def _is_pandas(frame: Any) -> bool:
    return type(frame).__module__.partition(".")[0] == "pandas"


def _from_pandas(frame: Any) -> Any:
    named = any(name is not None for name in frame.index.names)
    return pa.Table.from_pandas(frame.reset_index() if named else frame, preserve_index=False)
