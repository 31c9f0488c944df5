"""A table, wherever it lies: a name, columns, batches of rows, and where a row is found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

from xtcl.errors import DataError, UsageError, first_few, known_names
from xtcl.graph.tables.frame import FrameTable
from xtcl.graph.tables.magic import GZIP, PARQUET, kind_of_file
from xtcl.graph.tables.meter import BytesRead, untold
from xtcl.graph.tables.parquet_file import ParquetTable
from xtcl.graph.tables.text_file import TextTable

SHOWN = 30


class Table(Protocol):
    """What the readers need of a table; batches are `pyarrow.RecordBatch`es."""

    name: str
    columns: tuple[str, ...]

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """All rows of these columns, in order; as often as asked for."""

    def spot(self, row: int) -> str:
        """Where row number `row` (from 0) stands in it, for a message."""


def place(table: Table, row: int) -> str:
    """The table and where in it row number `row` (from 0) stands."""
    return f"{table.name}, {table.spot(row)}"


def open_table(source: object, what: str, told: BytesRead = untold) -> Table:
    """The table of a path, of a pandas or Polars frame or of an Arrow table."""
    table = _open(source, what, told)
    repeated = sorted({name for name in table.columns if table.columns.count(name) > 1})
    if repeated:
        raise DataError(
            f"{table.name} has several columns called {first_few(map(repr, repeated))}; "
            "give every column a name of its own."
        )
    return table


def _open(source: object, what: str, told: BytesRead) -> Table:
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        kind = kind_of_file(path)
        if kind == PARQUET:
            return ParquetTable(path, told=told)
        return TextTable(path, zipped=kind == GZIP, told=told)
    if hasattr(source, "__arrow_c_stream__"):
        return FrameTable(source, f"the frame of {what}")
    raise UsageError(
        f"The table of {what} is a {type(source).__name__}: give a path, a pandas or Polars "
        "frame, or an Arrow table."
    )


def need_column(table: Table, name: str, what: str) -> str:
    """`name`, which must be a column of `table`."""
    if name not in table.columns:
        known = known_names(name, table.columns[:SHOWN])
        raise DataError(f"{table.name} has no column {name!r} for {what}.{known}")
    return name
