"""CSV and TSV files, read in blocks by Arrow; every cell stays text until a rule says otherwise."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from xtcl.errors import DataError
from xtcl.graph.tables.diagnosis import (
    UNREADABLE,
    line_of_row,
    open_text,
    unclosed_quote,
    why_unreadable,
)
from xtcl.graph.tables.magic import LOOKED_AT
from xtcl.graph.tables.meter import BytesRead, untold

BLOCK_BYTES = 16 << 20
DELIMITERS = ",;|"


class TextTable:
    """A text file with a line of column names; gzip is unpacked on the way."""

    def __init__(self, path: Path, *, zipped: bool = False, told: BytesRead = untold) -> None:
        self.path, self.name, self.zipped, self.told = path, str(path), zipped, told
        self.delimiter, names = self._header()
        self._refuse_odd_bytes()
        self.columns = tuple(
            name.strip() or f"column {at}" for at, name in enumerate(names, start=1)
        )

    def _header(self) -> tuple[str, list[str]]:
        """The delimiter and the column names; a tab wins over commas, which may be in names."""
        try:
            with open_text(self.path, self.zipped) as file:
                start = file.read(LOOKED_AT)
        except UNREADABLE as error:
            raise self._unreadable(error) from error
        lines = start.splitlines(keepends=True)
        filled = [at for at, line in enumerate(lines) if line.strip()]
        if not filled:
            raise DataError(f"{self.name} is empty; a table needs column names and rows.")
        first = lines[filled[0]]
        delimiter = "\t" if "\t" in first else max(DELIMITERS, key=first.count)
        try:
            names = next(csv.reader(lines[filled[0] :], delimiter=delimiter))
        except csv.Error as error:
            raise DataError(
                f"{self.name}, line {filled[0] + 1}: the column names cannot be read ({error})."
            ) from error
        return delimiter, names

    def _refuse_odd_bytes(self) -> None:
        """Zero bytes and a quote that is never closed, which Arrow would take as text."""
        quotes = 0
        try:
            with self._streams() as (_, stream):
                while chunk := stream.read(BLOCK_BYTES):
                    if b"\0" in chunk:
                        raise self._unreadable(ValueError("zero byte"))
                    quotes += chunk.count(b'"')
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error
        line = unclosed_quote(self.path, self.zipped, self.delimiter) if quotes % 2 else None
        if line is not None:
            raise DataError(
                f"{self.name}, line {line}: a quote is opened in this row and never closed; close "
                "it, or write a quote inside a cell twice."
            )

    @contextmanager
    def _streams(self) -> Iterator[tuple[Any, Any]]:
        """The file, and the stream of what is in it."""
        with pa.OSFile(str(self.path)) as file:
            if not self.zipped:
                yield file, file
                return
            with pa.CompressedInputStream(file, "gzip") as stream:
                yield file, stream

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Blocks of rows, every cell as text."""
        try:
            with self._streams() as (file, stream):
                before = 0
                for batch in arrow_csv.open_csv(
                    stream,
                    arrow_csv.ReadOptions(
                        column_names=list(self.columns),
                        skip_rows_after_names=1,
                        block_size=BLOCK_BYTES,
                    ),
                    arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                    arrow_csv.ConvertOptions(
                        column_types=dict.fromkeys(self.columns, pa.large_string()),
                        include_columns=list(columns),
                        strings_can_be_null=False,
                    ),
                ):
                    yield batch
                    place = file.tell()
                    self.told(place - before)
                    before = place
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        delimiter = getattr(self, "delimiter", ",")
        return DataError(why_unreadable(self.path, self.zipped, delimiter, error))

    def spot(self, row: int) -> str:
        """The line, which quoted line ends and empty lines shift."""
        return f"line {line_of_row(self.path, self.zipped, self.delimiter, row)}"
