"""One relation's above pairs as a Parquet file that can tell when it was damaged.

Columns u, v, similarity and level, sorted by u then v. A row group covers a range of u; the ranges,
a SHA-256 of each group's values, the description that names the file and what was noted about its
pairs lie in the file's own metadata under `xtcl`, and their SHA-256 under `xtcl_sha256`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from xtcl.errors import UsageError
from xtcl.relations.above_rows import AboveRows
from xtcl.relations.store.identity import Description, canonical

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_PAIRS = 2**18
"""Pairs of a row group, unless one row alone has more: some 3 MB when they are read."""

HEADER, HEADER_SHA256 = "xtcl", "xtcl_sha256"
COLUMNS = {"u": np.int32, "v": np.int32, "similarity": np.float32, "level": np.uint8}


@dataclass(frozen=True)
class Group:
    """A row group: the pairs of the nodes from `first` to before `end`."""

    first: int
    end: int
    pairs: int
    sha256: str


class PairsWriter:
    """Writes the rows of the rising `nodes` as they come, whole row groups at a time.

    The file does not depend on how the rows were cut into blocks. `notes` go with them.
    """

    def __init__(self, path: Path, described: Description, nodes: np.ndarray) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.nodes = nodes
        self.done = 0
        self.notes: Mapping[str, Any] = {}
        self._described = described
        self._groups: list[Group] = []
        self._pending = AboveRows.empty(0, 0)
        schema = pa.schema([(name, pa.from_numpy_dtype(kind)) for name, kind in COLUMNS.items()])
        self._file = pq.ParquetWriter(
            path, schema, compression="zstd", use_dictionary=["u", "level"], write_statistics=["u"]
        )

    @property
    def complete(self) -> bool:
        """Whether the rows of all nodes are there."""
        return self.done == len(self.nodes)

    def append(self, nodes: np.ndarray, rows: AboveRows) -> None:
        """Add the `rows` of `nodes`, which must be the next ones."""
        following = self.nodes[self.done : self.done + len(nodes)]
        if not np.array_equal(following, nodes):
            raise UsageError(
                f"The relation store was given rows of {len(nodes)} nodes that are not the next "
                f"ones after the first {self.done}: give every node's row once, in order."
            )
        gap = AboveRows.empty(self._pending.end, rows.first)
        self._pending = AboveRows.concatenate([self._pending, gap, rows])
        while len(self._pending.nodes) >= GROUP_PAIRS:
            fitting = np.searchsorted(self._pending.start, GROUP_PAIRS, side="right") - 1
            self._flush(self._pending.first + max(int(fitting), 1))
        self.done += len(nodes)  # only now: rows that could not be written did not come

    def close(self) -> None:
        """Write what is left, and the metadata."""
        if len(self._pending.nodes):
            self._flush(self._pending.end)
        told: dict[str, Any] = {"description": self._described}
        told["groups"] = [asdict(group) for group in self._groups]
        if self.notes:
            told["notes"] = dict(self.notes)
        header = canonical(told)
        digest = hashlib.sha256(header.encode()).hexdigest()
        self._file.add_key_value_metadata({HEADER: header, HEADER_SHA256: digest})
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
        import pyarrow as pa

        group = self._pending.between(self._pending.first, end)
        self._pending = self._pending.between(end, self._pending.end)
        values = (group.sources, group.nodes, group.similarities, group.levels)
        columns = {
            name: np.ascontiguousarray(array, dtype=kind)
            for (name, kind), array in zip(COLUMNS.items(), values, strict=True)
        }
        self._file.write_table(pa.table(columns), row_group_size=len(group.nodes))
        self._groups.append(Group(group.first, end, len(group.nodes), _sha256(columns)))


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


def read_group(table: pa.Table, group: Group) -> AboveRows:
    """The rows of a group; ValueError or LookupError where they are not as written."""
    columns = {name: table.column(name).to_numpy() for name in COLUMNS}
    if _sha256(columns) != group.sha256:
        raise ValueError(f"the rows of nodes {group.first} to {group.end - 1} have another hash")
    return AboveRows(
        group.first,
        np.searchsorted(columns["u"], np.arange(group.first, group.end + 1)),
        columns["v"].astype(np.int64),
        columns["similarity"],
        columns["level"],
    )


def _sha256(columns: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, kind in COLUMNS.items():
        values = np.ascontiguousarray(columns[name], dtype=np.dtype(kind).newbyteorder("<"))
        digest.update(values.data)
    return digest.hexdigest()
