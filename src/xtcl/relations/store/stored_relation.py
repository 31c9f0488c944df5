"""A relation's above pairs in the store, read by ranges of rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from xtcl.errors import DataError, UsageError
from xtcl.relations.above_rows import AboveRows
from xtcl.relations.store.identity import name_of
from xtcl.relations.store.pairs_file import read_group, read_header

ASIDE = ".damaged"
"""What the name of a damaged file ends with once it was noticed."""


class DamagedFileError(DataError):
    """A file of the store is not as it was written."""


class StoredRelation:
    """An open file of the store. It stays readable when others remove or replace the file.

    Memory: the row group read last, which the next range often needs again.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self._handle = path.open("rb")
        try:
            with self._noticing_damage():
                self._file = pq.ParquetFile(self._handle)
                header = read_header(self._file.metadata.metadata)
                self.description, self._groups, self.notes = header
                if name_of(self.description) != path.stem:
                    raise ValueError("its name is not that of its content")
        except BaseException:
            self.close()
            raise
        self._recent: tuple[int, AboveRows] | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return int(self.description["nodes"])

    @property
    def pairs(self) -> int:
        """Number of pairs in the file."""
        return sum(group.pairs for group in self._groups)

    @property
    def bytes(self) -> int:
        """Size of the file."""
        return os.fstat(self._handle.fileno()).st_size

    @property
    def last_used(self) -> float:
        """When it was last written or asked for, in seconds since 1970."""
        return os.fstat(self._handle.fileno()).st_mtime

    def rows(self, first: int, last: int) -> AboveRows:
        """The rows of the nodes from `first` to before `last`.

        Only the row groups they lie in are read, and each is checked by its hash.
        """
        if not 0 <= first <= last <= self.num_nodes:
            raise UsageError(
                f"Rows {first} to {last} do not exist in '{self.path}'; they are 0 to "
                f"{self.num_nodes}."
            )
        found = [AboveRows.empty(first, first)]
        for number, group in enumerate(self._groups):
            start, end = max(first, group.first), min(last, group.end)
            if start < end:
                found.append(self._group(number).between(start, end))
        if found[-1].end < last:  # nodes after the last one that was written
            found.append(AboveRows.empty(found[-1].end, last))
        return AboveRows.concatenate(found)

    def _group(self, number: int) -> AboveRows:
        if self._recent is None or self._recent[0] != number:
            with self._noticing_damage():
                table = self._file.read_row_group(number, use_threads=False)
                self._recent = number, read_group(table, self._groups[number])
        return self._recent[1]

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def __enter__(self) -> StoredRelation:
        return self

    def __exit__(self, kind: Any, error: Any, trace: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def _noticing_damage(self) -> Iterator[None]:
        """Turn whatever a damaged file leads to into one error, and set the file aside."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, LookupError, OSError, TypeError, ValueError) as damage:
            self._set_aside()
            raise DamagedFileError(
                f"'{self.path}' of the relation store is damaged ({damage}). It was set aside as "
                f"'{self.path.name}{ASIDE}'; ask for the relation again and it is computed anew."
            ) from damage

    def _set_aside(self) -> None:
        """Rename the file, unless somebody has done so or put a new one in its place."""
        with suppress(FileNotFoundError):
            if os.path.samestat(self.path.stat(), os.fstat(self._handle.fileno())):
                self.path.replace(self.path.with_name(self.path.name + ASIDE))
