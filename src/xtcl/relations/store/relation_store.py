"""A folder of Parquet files, one for each relation and view, named by their content."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

import numpy as np
import torch

from xtcl.errors import UsageError
from xtcl.files import atomic_path
from xtcl.relations.relation import Relation
from xtcl.relations.row_source import RowSource
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.key import Description, describe, is_storable, name_of
from xtcl.relations.store.parquet import (
    DAMAGED_SUFFIX,
    DamagedFileError,
    PairsWriter,
    StoredRelation,
)
from xtcl.relations.view import TrainingView

_SUFFIX = ".parquet"


_OWN_FILES = "[0-9a-f]" * 64 + _SUFFIX
"""Pattern of the names of the store's files. Other files in the folder are never changed."""


ABANDONED_SECONDS = 24 * 3600
"""Age of a temporary file whose writer no longer runs."""


@dataclass(frozen=True)
class StoreEntry:
    """What one file of the store holds."""

    relation: str
    parameters: dict[str, Any]
    quantiles: tuple[float, ...]
    rows: str  # "all", or a hash of the nodes whose rows are there
    nodes: int
    pairs: int
    bytes: int
    last_used: float  # seconds since 1970
    file: str


def as_store(store: object) -> RelationStore | None:
    """The store itself, or the one in the folder `store`; None for None."""
    if store is None or isinstance(store, RelationStore):
        return store
    if not isinstance(store, (str, os.PathLike)):
        raise UsageError(f"store={store!r} must be a folder, a RelationStore, or None.")
    return RelationStore(Path(store))


@dataclass(frozen=True)
class RelationStore:
    """Above pairs that are computed once and then read, also by other processes.

    A file's name is the SHA-256 of all that decides its content (see `xtcl.relations.store.key`),
    so a file is never out of date: what changed has another name. Files appear whole or not at all,
    and two writers of one name write the same. `limit` is the most bytes of all files together;
    opening the store or writing to it removes those that were not used for longest. Relations of
    the user are stored if they declare themselves cacheable and their source can be read. A store
    that is removed with the process that made it need not be `durable`: no file is synced.
    """

    folder: Path
    limit: int | None = None
    durable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(
                f"'{self.folder}' is a file, and a relation store is a folder: choose another name."
            )
        if self.limit is not None and self.limit < 0:
            raise UsageError(f"limit={self.limit} must be a number of bytes, or None for no limit.")
        if self.limit is not None and self.folder.is_dir():
            self.evict()

    def get(
        self,
        view: TrainingView,
        relation: Relation,
        quantiles: Sequence[float],
        nodes: np.ndarray | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> StoredRelation | None:
        """The rows of all nodes, or of the ascending `nodes` alone; None if they are not stored.

        `settings` are those of top-k mode, such as {"cap": 32}.
        """
        return self.opened(describe(view, relation, quantiles, nodes, settings))

    def opened(self, described: Description) -> StoredRelation | None:
        """The file of a description, which counts as used now; None if it does not exist."""
        path = self._path(described)
        stored = self._opened(path)
        if stored is not None:
            with suppress(OSError):  # a store that may only be read serves all the same
                os.utime(path)  # not touch, which makes an empty file where it was just removed
        return stored

    def put(
        self,
        view: TrainingView,
        relation: Relation,
        quantiles: Sequence[float],
        blocks: Iterable[tuple[np.ndarray, SparseRows]],
    ) -> None:
        """Keep the rows of all nodes, which come in blocks of nodes and their rows, in order."""
        with self.writing(view, relation, quantiles) as writer:
            for nodes, rows in blocks:
                writer.append(nodes, rows)
            if not writer.complete:
                raise UsageError(
                    f"The relation store got {writer.done} rows of relation '{relation.name}' and "
                    f"the graph has {view.num_nodes} nodes: give a row for each of them."
                )

    def load_or_compute(self, source: RowSource, nodes: np.ndarray | None = None) -> StoredRelation:
        """The rows of all nodes, or of the ascending `nodes`; computed and stored if missing.

        Cost: O(tile V) memory and one pass over the relation's rows.
        """
        key = source.view, source.relation, source.quantiles, nodes, source.settings
        while (stored := self.get(*key)) is None:
            with self.writing(*key) as writer:
                every_node = torch.from_numpy(writer.nodes).to(source.view.device)
                for block in torch.split(every_node, source.block_rows):
                    writer.append(block.cpu().numpy(), source.rows(block))
                writer.notes = source.notes
        return stored

    @contextmanager
    def writing(
        self,
        view: TrainingView,
        relation: Relation,
        quantiles: Sequence[float],
        nodes: np.ndarray | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Iterator[PairsWriter]:
        """Write rows block by block. The file appears at the end, if all rows were written."""
        if not relation.cacheable:
            raise UsageError(
                f"Relation '{relation.name}' does not declare itself cacheable, so more than its "
                "fields and code may decide its rows: compute it without the relation store."
            )
        if not is_storable(relation):
            raise UsageError(
                f"The source of relation '{relation.name}' cannot be read, so a change of its code "
                "would not be noticed: define it in a file, or compute it without the relation "
                "store."
            )
        wanted = np.arange(view.num_nodes) if nodes is None else nodes
        described = describe(view, relation, quantiles, nodes, settings)
        with self.writing_as(described, wanted) as writer:
            yield writer

    @contextmanager
    def writing_as(self, described: Description, wanted: np.ndarray) -> Iterator[PairsWriter]:
        """The same for the file of any description, with rows of the nodes `wanted`."""
        path = self._path(described)
        self.folder.mkdir(parents=True, exist_ok=True)
        with (
            suppress(_IncompleteError),
            atomic_path(path, durable=self.durable) as temporary,
            PairsWriter(temporary, described, wanted) as writer,
        ):
            yield writer
            if not writer.complete:
                raise _IncompleteError
        self._evict(keep=path)

    def listing(self) -> list[StoreEntry]:
        """The files of the store, last used first."""
        found = []
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            if not path.match(_OWN_FILES):
                warnings.warn(
                    f"'{path}' is no file of the relation store: it is not listed, and left as it "
                    "is.",
                    stacklevel=2,
                )
                continue
            stored = self._opened(path)
            if stored is not None:
                with stored:
                    found.append(_entry(stored))
        return sorted(found, key=lambda entry: (-entry.last_used, entry.file))

    def evict(self) -> None:
        """Remove the files that were not used for longest until the rest is within the limit."""
        self._evict(keep=None)

    def _evict(self, keep: Path | None) -> None:
        for path in self.folder.glob(f".{_OWN_FILES}.*.tmp"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()
        if self.limit is None:
            return
        files = []
        damaged = self.folder.glob(f"{_OWN_FILES}{DAMAGED_SUFFIX}")
        for path in (*self.folder.glob(_OWN_FILES), *damaged):
            with suppress(FileNotFoundError):  # somebody else removed it
                status = path.stat()
                if S_ISREG(status.st_mode):
                    files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.limit:
                break
            if path != keep:
                path.unlink(missing_ok=True)
                total -= size

    def _path(self, described: Description) -> Path:
        return self.folder / f"{name_of(described)}{_SUFFIX}"

    def _opened(self, path: Path) -> StoredRelation | None:
        try:
            return StoredRelation(path)
        except FileNotFoundError:
            return None
        except DamagedFileError as damage:
            warnings.warn(str(damage), stacklevel=3)
            return None
        except OSError as trouble:  # a folder of that name, or a file of somebody else's
            warnings.warn(
                f"'{path}' of the relation store cannot be read ({trouble.strerror}), and is left "
                "as it is. Remove it, or choose another folder.",
                stacklevel=3,
            )
            return None


class _IncompleteError(Exception):
    """Not all rows were computed; what was written is dropped."""


def _entry(stored: StoredRelation) -> StoreEntry:
    described = stored.description
    return StoreEntry(
        relation=described["relation"],
        parameters=described["parameters"],
        quantiles=tuple(described["quantiles"]),
        rows=described["rows"],
        nodes=stored.num_nodes,
        pairs=stored.pairs,
        bytes=stored.bytes,
        last_used=stored.last_used,
        file=stored.path.name,
    )
