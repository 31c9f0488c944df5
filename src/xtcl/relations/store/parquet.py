"""One relation's above pairs as a Parquet file in which damage is detected.

Columns u, v, similarity and level, sorted by u then v. A row group covers a range of u. The file's
metadata hold, under `xtcl`, the ranges, a SHA-256 of each group's values, the description that
names the file and notes about its pairs; and under `xtcl_sha256` the SHA-256 of all that.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from xtcl.errors import DataError, UsageError
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.key import Description, canonical, name_of

if TYPE_CHECKING:
    import pyarrow as pa


PAIRS_PER_GROUP = 2**18
"""Most pairs of a row group, unless one row has more: some 6 MB when they are read."""


HEADER, HEADER_SHA256 = "xtcl", "xtcl_sha256"


FILE_COLUMNS = {"u": np.int32, "v": np.int32, "similarity": np.float32, "level": np.uint8}


@dataclass(frozen=True)
class Group:
    """A row group: the pairs of the nodes from `first` to before `end`."""

    first: int
    end: int
    pairs: int
    sha256: str


class PairsWriter:
    """Writes the rows of `nodes`, which are ascending, block by block into row groups.

    The file does not depend on how the rows were cut into blocks. `notes` are stored with them.
    """

    def __init__(self, path: Path, described: Description, nodes: np.ndarray) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.nodes = nodes
        self.done = 0
        self.notes: Mapping[str, Any] = {}
        self._described = described
        self._groups: list[Group] = []
        self._first = 0  # the first node of the next row group
        self._pending = {name: np.zeros(0, dtype=kind) for name, kind in FILE_COLUMNS.items()}
        schema = pa.schema(
            [(name, pa.from_numpy_dtype(kind)) for name, kind in FILE_COLUMNS.items()]
        )
        self._file = pq.ParquetWriter(
            path, schema, compression="zstd", use_dictionary=["u", "level"], write_statistics=["u"]
        )

    @property
    def complete(self) -> bool:
        """Whether the rows of all nodes are written."""
        return self.done == len(self.nodes)

    def append(self, nodes: np.ndarray, rows: SparseRows) -> None:
        """Add the `rows` of `nodes`, which must be the next ones."""
        following = self.nodes[self.done : self.done + len(nodes)]
        if not np.array_equal(following, nodes):
            raise UsageError(
                f"The relation store was given rows of {len(nodes)} nodes that are not the next "
                f"ones after the first {self.done}: give every node's row once, in order."
            )
        row, *others = rows.to_numpy()
        self._pending = {
            name: np.concatenate([self._pending[name], column], dtype=kind, casting="unsafe")
            for (name, kind), column in zip(
                FILE_COLUMNS.items(), (nodes[row], *others), strict=True
            )
        }
        while len(u := self._pending["u"]) > PAIRS_PER_GROUP:
            # Whole rows only: those that end before the first pair too many, or the first row.
            end = max(u[PAIRS_PER_GROUP], u[0] + 1)
            self._flush(int(end))
        self.done += len(nodes)  # only now: rows that could not be written do not count

    def close(self) -> None:
        """Write what is left, and the metadata."""
        if len(self._pending["u"]):
            self._flush(int(self._pending["u"][-1]) + 1)
        header: dict[str, Any] = {"description": self._described}
        header["groups"] = [asdict(group) for group in self._groups]
        if self.notes:
            header["notes"] = dict(self.notes)
        text = canonical(header)
        digest = hashlib.sha256(text.encode()).hexdigest()
        self._file.add_key_value_metadata({HEADER: text, HEADER_SHA256: digest})
        self._file.close()

    def __enter__(self) -> PairsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(OSError):  # the file is dropped anyway
                self._file.close()

    def _flush(self, end: int) -> None:
        """Write the pairs of the nodes before `end` as a row group."""
        import pyarrow as pa

        pairs = int(np.searchsorted(self._pending["u"], end))
        group = {name: column[:pairs] for name, column in self._pending.items()}
        self._file.write_table(pa.table(group), row_group_size=pairs)
        self._groups.append(Group(self._first, end, pairs, _sha256(group)))
        self._pending = {name: column[pairs:] for name, column in self._pending.items()}
        self._first = end


def read_header(
    metadata: dict[bytes, bytes] | None,
) -> tuple[Description, list[Group], Mapping[str, Any]]:
    """Description, groups and notes; ValueError or LookupError where they are not as written."""
    text = (metadata or {})[HEADER.encode()]
    if hashlib.sha256(text).hexdigest().encode() != (metadata or {})[HEADER_SHA256.encode()]:
        raise ValueError("its metadata are not as they were written")
    header: dict[str, Any] = json.loads(text)
    groups = [Group(**group) for group in header["groups"]]
    return header["description"], groups, header.get("notes", {})


def read_group(table: pa.Table, group: Group) -> SparseRows:
    """The rows of a group; ValueError or LookupError where they are not as written."""
    columns = {name: table.column(name).to_numpy() for name in FILE_COLUMNS}
    if _sha256(columns) != group.sha256:
        raise ValueError(f"the rows of nodes {group.first} to {group.end - 1} have another hash")
    u, v, similarity, level = (torch.tensor(columns[name]) for name in FILE_COLUMNS)
    return SparseRows(u.long() - group.first, v.long(), group.end - group.first, similarity, level)


def _sha256(columns: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, kind in FILE_COLUMNS.items():
        values = np.ascontiguousarray(columns[name], dtype=np.dtype(kind).newbyteorder("<"))
        digest.update(values.data)
    return digest.hexdigest()


DAMAGED_SUFFIX = ".damaged"
"""Suffix of damaged files that were renamed."""


class DamagedFileError(DataError):
    """A file of the store is not as it was written."""


class StoredRelation:
    """An open file of the store. It stays readable when others remove or replace the file.

    Memory: the row group that was read last, which the next range often needs again.
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
        self._recent: tuple[int, SparseRows] | None = None

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
        """When it was last written or opened by a fit, in seconds since 1970."""
        return os.fstat(self._handle.fileno()).st_mtime

    def rows(self, first: int, last: int) -> SparseRows:
        """The rows of the nodes from `first` to before `last`.

        Only the row groups that they are in are read, and each is checked by its hash.
        """
        if not 0 <= first <= last <= self.num_nodes:
            raise UsageError(
                f"Rows {first} to {last} do not exist in '{self.path}'; they are 0 to "
                f"{self.num_nodes}."
            )
        found = []
        place = first
        for number, group in enumerate(self._groups):
            start, end = max(first, group.first), min(last, group.end)
            if start < end:
                rows = self._group(number)
                found.append(rows.between(start - group.first, end - group.first))
                place = end
        # Nodes after the last one that has a pair are in no group.
        return SparseRows.joined([*found, SparseRows.empty(last - place)])

    def _group(self, number: int) -> SparseRows:
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
        """Turn all errors that a damaged file leads to into one, and set the file aside."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, LookupError, OSError, TypeError, ValueError) as damage:
            self._set_aside()
            raise DamagedFileError(
                f"'{self.path}' of the relation store is damaged ({damage}). It was set aside as "
                f"'{self.path.name}{DAMAGED_SUFFIX}'; "
                "ask for the relation again and it is computed anew."
            ) from damage

    def _set_aside(self) -> None:
        """Rename the file, unless it was renamed or replaced meanwhile."""
        with suppress(FileNotFoundError):
            if os.path.samestat(self.path.stat(), os.fstat(self._handle.fileno())):
                self.path.replace(self.path.with_name(self.path.name + DAMAGED_SUFFIX))
