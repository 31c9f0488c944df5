"""CSV, TSV and Parquet files, pandas and Polars frames and Arrow tables, as one `Table`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from xtcl.errors import DataError, UsageError, first_few, known_names
from xtcl.graph.tables.diagnosis import (
    READ_ERRORS,
    line_of_row,
    open_text,
    unclosed_quote,
    why_unreadable,
)
from xtcl.progress import Progress

BytesRead = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


def no_progress(count: int) -> None:
    """A `BytesRead` that does nothing."""


_TEXT, _GZIP, _PARQUET = "text", "gzip", "parquet"
_HEAD_BYTES = 1 << 16
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip or spreadsheet file; export the sheet as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet file; export the sheet as CSV (UTF-8)",
    b"BZh": "compressed with bzip2; unpack it, or compress it with gzip",
    b"\xfd7zXZ": "compressed with xz; unpack it, or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it, or compress it with gzip",
    b"SQLite format 3": "an SQLite file; export the table as CSV",
}
_DELIMITERS = ",;|"
_COLUMNS_IN_MESSAGES = 30
# What a damaged file makes Arrow raise.
_DAMAGE = (pa.ArrowException, OSError, ValueError, RuntimeError, MemoryError, OverflowError)
BLOCK_BYTES = 16 << 20
BATCH_ROWS = 1 << 19
MEGABYTE = 1 << 20
PROGRESS_FROM_BYTES = 8 * MEGABYTE
"""Smaller tables are read in about a second, and show no progress."""


class Table(Protocol):
    """What the readers need of a table; batches are `pyarrow.RecordBatch`es."""

    name: str
    columns: tuple[str, ...]

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """All rows of these columns, in order; as often as asked for."""

    def spot(self, row: int) -> str:
        """Where row number `row` (from 0) stands in it, for a message."""


def open_table(source: object, what: str, on_read: BytesRead = no_progress) -> Table:
    """The table of a path, of a pandas or Polars frame or of an Arrow table."""
    table = _open(source, what, on_read)
    repeated = sorted({name for name in table.columns if table.columns.count(name) > 1})
    if repeated:
        raise DataError(
            f"{table.name} has several columns called {first_few(map(repr, repeated))}; "
            "give every column a name of its own."
        )
    return table


def _open(source: object, what: str, on_read: BytesRead) -> Table:
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        kind = file_type(path)
        if kind == _PARQUET:
            return ParquetTable(path, on_read=on_read)
        return TextTable(path, zipped=kind == _GZIP, on_read=on_read)
    if hasattr(source, "__arrow_c_stream__"):
        return FrameTable(source, f"the frame of {what}")
    raise UsageError(
        f"The table of {what} is a {type(source).__name__}: give a path, a pandas or Polars "
        "frame, or an Arrow table."
    )


def need_column(table: Table, name: str, what: str) -> str:
    """`name`, which must be a column of `table`."""
    if name not in table.columns:
        known = known_names(name, table.columns[:_COLUMNS_IN_MESSAGES])
        raise DataError(f"{table.name} has no column {name!r} for {what}.{known}")
    return name


def place(table: Table, row: int) -> str:
    """The table and where in it row number `row` (from 0) stands."""
    return f"{table.name}, {table.spot(row)}"


class TextTable:
    """A text file with a line of column names; gzip is unpacked on the way."""

    def __init__(
        self, path: Path, *, zipped: bool = False, on_read: BytesRead = no_progress
    ) -> None:
        self.path, self.name, self.zipped, self.on_read = path, str(path), zipped, on_read
        self.delimiter, names = self._header()
        self._refuse_bad_bytes()
        self.columns = tuple(
            name.strip() or f"column {at}" for at, name in enumerate(names, start=1)
        )

    def _header(self) -> tuple[str, list[str]]:
        """The delimiter and the column names; a tab wins over commas, which may be in names."""
        try:
            with open_text(self.path, self.zipped) as file:
                start = file.read(_HEAD_BYTES)
        except READ_ERRORS as error:
            raise self._unreadable(error) from error
        lines = start.splitlines(keepends=True)
        filled = [at for at, line in enumerate(lines) if line.strip()]
        if not filled:
            raise DataError(f"{self.name} is empty; a table needs column names and rows.")
        first = lines[filled[0]]
        delimiter = "\t" if "\t" in first else max(_DELIMITERS, key=first.count)
        try:
            names = next(csv.reader(lines[filled[0] :], delimiter=delimiter))
        except csv.Error as error:
            raise DataError(
                f"{self.name}, line {filled[0] + 1}: the column names cannot be read ({error})."
            ) from error
        return delimiter, names

    def _refuse_bad_bytes(self) -> None:
        """Refuse zero bytes and a quote that is never closed: Arrow reads both as text."""
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
                    now = file.tell()
                    self.on_read(now - before)
                    before = now
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> DataError:
        delimiter = getattr(self, "delimiter", ",")
        return DataError(why_unreadable(self.path, self.zipped, delimiter, error))

    def spot(self, row: int) -> str:
        """The line, which quoted line ends and empty lines shift."""
        return f"line {line_of_row(self.path, self.zipped, self.delimiter, row)}"


class ParquetTable:
    """A Parquet file; its columns keep their types."""

    def __init__(self, path: Path, *, on_read: BytesRead = no_progress) -> None:
        self.path, self.name, self.on_read = path, str(path), on_read
        try:
            self.columns = tuple(parquet.read_schema(path).names)
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Batches of rows."""
        try:
            size = self.path.stat().st_size
            with parquet.ParquetFile(self.path, page_checksum_verification=True) as file:
                for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                    batch.validate(full=True)  # text that is no UTF-8, above all
                    yield batch
                    self.on_read(size * batch.num_rows // max(file.metadata.num_rows, 1))
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def _damaged(self, error: BaseException) -> DataError:
        return DataError(f"{self.name} is damaged ({_first_line(error)}); write it again.")

    def spot(self, row: int) -> str:
        """The row, counted from 1."""
        return f"row {row + 1}"


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


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


def file_type(path: Path) -> str:
    """Text, gzip or Parquet; anything else is refused."""
    start = _first_bytes(path)
    if not start:
        raise DataError(f"{path} is empty; a table needs a line of column names and rows.")
    if start.startswith(b"PAR1"):
        return _PARQUET
    if start.startswith(b"\x1f\x8b"):
        return _GZIP
    for mark, sentence in _OTHER_FORMATS.items():
        if start.startswith(mark):
            raise DataError(f"{path} is {sentence}.")
    _refuse_binary(start, path)
    return _TEXT


def _first_bytes(path: Path) -> bytes:
    try:
        folder, special = path.is_dir(), path.exists() and not path.is_file()
        if not folder and not special:
            with path.open("rb") as file:
                return file.read(_HEAD_BYTES)
    except (OSError, ValueError) as error:  # a ValueError is a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {reason}. Check the path.") from error
    if folder:
        raise DataError(f"{path} is a folder; name the file of the table in it.")
    raise DataError(f"{path} is not a plain file, and a table is read more than once; copy it.")


def _refuse_binary(start: bytes, path: Path) -> None:
    zeros = start.count(b"\0")
    if start.startswith(_UTF_16) or (zeros > len(start) // 4 and start[1:2] == b"\0"):
        raise DataError(f"{path} is UTF-16 text; save it as UTF-8.")
    if zeros:
        line = start[: start.index(b"\0")].count(b"\n") + 1
        raise DataError(
            f"{path}, line {line}: a zero byte; this is no text. Give a CSV, TSV or Parquet file."
        )


@contextmanager
def byte_progress(progress: Progress, passes: list[tuple[object, int]]) -> Iterator[BytesRead]:
    """A stage over files, each read a number of times; frames in memory count as 0 bytes."""
    whole = sum(_size(source) * times for source, times in passes)
    if whole < PROGRESS_FROM_BYTES:
        yield no_progress
        return
    with progress.stage("reading tables (MB)", whole // MEGABYTE) as advance:
        done = 0

        def on_read(count: int) -> None:
            nonlocal done
            advance((done + count) // MEGABYTE - done // MEGABYTE)
            done += count

        yield on_read


def _size(source: object) -> int:
    if not isinstance(source, (str, PathLike)):
        return 0
    try:
        return Path(source).stat().st_size
    except (OSError, ValueError):  # reported when the table is opened
        return 0
