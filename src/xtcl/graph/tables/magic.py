"""What kind of file this is, by its first bytes: names can lie."""

from __future__ import annotations

from pathlib import Path

from xtcl.errors import DataError

TEXT, GZIP, PARQUET = "text", "gzip", "parquet"
LOOKED_AT = 1 << 16
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
FOREIGN = {
    b"PK\x03\x04": "a zip or spreadsheet file; export the sheet as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet file; export the sheet as CSV (UTF-8)",
    b"BZh": "compressed with bzip2; unpack it, or compress it with gzip",
    b"\xfd7zXZ": "compressed with xz; unpack it, or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it, or compress it with gzip",
    b"SQLite format 3": "an SQLite file; export the table as CSV",
}


def kind_of_file(path: Path) -> str:
    """Text, gzip or Parquet; anything else is refused."""
    start = _first_bytes(path)
    if not start:
        raise DataError(f"{path} is empty; a table needs a line of column names and rows.")
    if start.startswith(b"PAR1"):
        return PARQUET
    if start.startswith(b"\x1f\x8b"):
        return GZIP
    for mark, sentence in FOREIGN.items():
        if start.startswith(mark):
            raise DataError(f"{path} is {sentence}.")
    _refuse_binary(start, path)
    return TEXT


def _first_bytes(path: Path) -> bytes:
    try:
        folder, odd = path.is_dir(), path.exists() and not path.is_file()
        if not folder and not odd:
            with path.open("rb") as file:
                return file.read(LOOKED_AT)
    except (OSError, ValueError) as error:  # a ValueError is a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path} cannot be read: {reason}. Check the path.") from error
    if folder:
        raise DataError(f"{path} is a folder; name the file of the table in it.")
    raise DataError(f"{path} is not a plain file, and a table is read more than once; copy it.")


def _refuse_binary(start: bytes, path: Path) -> None:
    zeros = start.count(b"\0")
    if start.startswith(UTF_16) or (zeros > len(start) // 4 and start[1:2] == b"\0"):
        raise DataError(f"{path} is UTF-16 text; save it as UTF-8.")
    if zeros:
        line = start[: start.index(b"\0")].count(b"\n") + 1
        raise DataError(
            f"{path}, line {line}: a zero byte; this is no text. Give a CSV, TSV or Parquet file."
        )
