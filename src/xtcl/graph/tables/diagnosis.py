"""Where and why a text file cannot be read: slow and careful, and only after something failed."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_MAX_CELL_LENGTH = 1 << 24
READ_ERRORS = (UnicodeDecodeError, OSError, EOFError, zlib.error)
"""Raised when a file is not text, or is damaged gzip."""


def why_unreadable(path: Path, zipped: bool, delimiter: str, error: Exception) -> str:
    """A sentence with the line of the first thing that is wrong with the file."""
    try:
        try:
            fault = _first_fault(path, zipped, delimiter)
        except UnicodeDecodeError:
            fault = _first_undecodable(path, zipped)
    except (EOFError, OSError, zlib.error):
        what = "is damaged gzip; compress it again" if zipped else "cannot be read; check the file"
        return f"{path} {what}."
    except csv.Error as problem:
        return f"{path} cannot be read as a table ({problem}); check its quotes."
    return fault or f"{path} cannot be read ({error})."


def _first_fault(path: Path, zipped: bool, delimiter: str) -> str | None:
    expected, last = 0, 0
    for line, record in _records(path, zipped, delimiter):
        if any("\0" in cell for cell in record):
            return (
                f"{path}, line {line}: a zero byte; this is no text. Give a text or Parquet file."
            )
        expected = expected or len(record)
        if len(record) != expected:
            if any("\n" in cell or "\r" in cell for cell in record):
                return (
                    f"{path}, line {line}: a quote is opened here and closed elsewhere or never; "
                    "close it, or write a quote in a cell twice."
                )
            return (
                f"{path}, line {line}: {len(record)} cell(s), but {expected} column name(s); "
                f"put cells that contain {delimiter!r} in quotes."
            )
        last = line
    return f"{path} has column names, but no rows." if last <= 1 else None


def _first_undecodable(path: Path, zipped: bool) -> str | None:
    with gzip.open(path) if zipped else path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as fault:
                return (
                    f"{path}, line {number}: byte 0x{line[fault.start]:02x} is not UTF-8; save the "
                    "file as UTF-8 (from Latin-1: iconv -f latin1 -t utf-8)."
                )
    return None


def unclosed_quote(path: Path, zipped: bool, delimiter: str) -> int | None:
    """The line of a quote that is never closed: Arrow takes the rest of the file as its cell."""
    begins = 1
    try:
        with _long_cells(), open_text(path, zipped) as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            for _ in reader:
                begins = reader.line_num + 1
    except csv.Error as fault:
        return None if "expected after" in str(fault) else begins
    except READ_ERRORS:
        return None
    return None


def line_of_row(path: Path, zipped: bool, delimiter: str, row: int) -> int:
    """The line on which data row `row` (from 0, after the column names) begins."""
    records = _records(path, zipped, delimiter)
    try:
        return next(itertools.islice(records, row + 1, None), (row + 2, []))[0]
    except (csv.Error, *READ_ERRORS):
        return row + 2  # where it would stand if all before it were plain


def _records(path: Path, zipped: bool, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The line on which each record begins, and its cells; empty lines are no records."""
    with _long_cells(), open_text(path, zipped) as file:
        reader = csv.reader(file, delimiter=delimiter)
        begins = 1
        for record in reader:
            if record:
                yield begins, record
            begins = reader.line_num + 1


@contextmanager
def _long_cells() -> Iterator[None]:
    limit = csv.field_size_limit(_MAX_CELL_LENGTH)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def open_text(path: Path, zipped: bool) -> IO[str]:
    """The file as UTF-8 text, without a byte order mark and with line ends as they are."""
    if zipped:
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
