"""Parquet files, read in batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from xtcl.errors import DataError
from xtcl.graph.tables.meter import BytesRead, untold

BATCH_ROWS = 1 << 19
# What a damaged file makes Arrow raise.
DAMAGE = (pa.ArrowException, OSError, ValueError, RuntimeError, MemoryError, OverflowError)


class ParquetTable:
    """A Parquet file; its columns keep their types."""

    def __init__(self, path: Path, *, told: BytesRead = untold) -> None:
        self.path, self.name, self.told = path, str(path), told
        try:
            self.columns = tuple(parquet.read_schema(path).names)
        except DAMAGE as error:
            raise self._damaged(error) from error

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Batches of rows."""
        try:
            size = self.path.stat().st_size
            with parquet.ParquetFile(self.path, page_checksum_verification=True) as file:
                for batch in file.iter_batches(BATCH_ROWS, columns=list(columns)):
                    batch.validate(full=True)  # text that is no UTF-8, above all
                    yield batch
                    self.told(size * batch.num_rows // max(file.metadata.num_rows, 1))
        except DAMAGE as error:
            raise self._damaged(error) from error

    def _damaged(self, error: BaseException) -> DataError:
        return DataError(f"{self.name} is damaged ({_first_line(error)}); write it again.")

    def spot(self, row: int) -> str:
        """The row, counted from 1."""
        return f"row {row + 1}"


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
