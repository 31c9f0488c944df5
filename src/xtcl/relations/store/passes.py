"""One relation's rows during one pass: read from the store, or written to it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.row_source import LevelSource, RowSource
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.key import is_storable
from xtcl.relations.store.parquet import DamagedFileError, PairsWriter, StoredRelation
from xtcl.relations.store.relation_store import RelationStore

Source = TypeVar("Source", bound=RowSource)


class PassRows(Generic[Source]):
    """Rows of a relation during one pass over blocks of nodes.

    They are read from a file of the store if it has them. Otherwise they are computed, and written
    to the store as long as that works. Rows that cannot be stored are only computed.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._store: RelationStore | None = None
        self._nodes: np.ndarray | None = None
        self._stored: StoredRelation | None = None
        self._writer: PairsWriter | None = None
        self._last = -1  # the last node whose row was written

    def rows(self, nodes: Tensor) -> SparseRows:
        """The above pairs of `nodes` [b], with similarities and levels."""
        rows = self._read(nodes)
        if rows is None:
            rows = self.source.rows(nodes)
            self._write(nodes, rows)
        return rows

    @property
    def notes(self) -> Mapping[str, Any]:
        """What is known about the rows: as stored with them, or as far as they are computed."""
        return self.source.notes if self._stored is None else self._stored.notes

    @contextmanager
    def through(
        self,
        store: RelationStore,
        nodes: np.ndarray,
        whole: np.ndarray | None = None,
        *,
        write: bool = True,
    ) -> Iterator[None]:
        """Use the store for one pass over blocks of `nodes`, in their order.

        Rows of some nodes may be in a file of their own, in that of the `whole` pass that they are
        a share of, or in that of all nodes. If they are in none, they are computed. With `write`
        they are also stored, if the pass is completed and the nodes are ascending.
        """
        source = self.source
        if not is_storable(source.relation) or not len(nodes):
            yield
            return
        key = source.view, source.relation, source.quantiles
        settings = source.settings
        some = np.unique(nodes)
        # Each of the three includes the one before, so their sizes tell them apart.
        files: dict[int, np.ndarray | None] = {len(some): some}
        files |= {} if whole is None else {len(rows := np.unique(whole)): rows}
        files |= {source.view.num_nodes: None}
        self._store, self._nodes = store, files[len(some)]
        found = (store.get(*key, rows, settings) for rows in files.values())
        self._stored = next((file for file in found if file is not None), None)
        if self._stored is not None:
            with closing(self):
                yield
        elif write and np.array_equal(some, nodes):
            with ExitStack() as stack:
                with self._tolerant():
                    writing = store.writing(*key, self._nodes, settings)
                    self._writer = stack.enter_context(writing)
                yield
                with self._tolerant():
                    if self._writer is not None:
                        self._writer.notes = source.notes
                    stack.close()
        else:
            yield

    def close(self) -> None:
        """Close the file that is read."""
        if self._stored is not None:
            self._stored.close()
        self._stored = None

    def _read(self, nodes: Tensor) -> SparseRows | None:
        """The stored rows of `nodes`, on their device; None where they have to be computed.

        If the file is damaged, the rows are computed and stored again.
        """
        if self._stored is None:
            return None
        try:
            return _rows_at(self._stored, nodes)
        except DamagedFileError as damage:
            warnings.warn(str(damage), stacklevel=2)
            self.close()
        with self._tolerant():
            if self._store is not None:
                self._stored = self._store.load_or_compute(self.source, self._nodes)
                return _rows_at(self._stored, nodes)
        return None

    def _write(self, nodes: Tensor, rows: SparseRows) -> None:
        """Write the `rows` of `nodes` that are not written yet."""
        # A block that ran out of memory is computed again in halves, which may end elsewhere.
        if self._writer is not None and int(nodes[-1]) > self._last:
            done = int((nodes <= self._last).sum())
            with self._tolerant():
                self._writer.append(nodes[done:].cpu().numpy(), rows.between(done, len(nodes)))
                self._last = int(nodes[-1])

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        """Warn where the store cannot be written to, and go on: a full disk must not end a fit."""
        try:
            yield
        except OSError as error:
            self._writer = None
            warnings.warn(
                f"Relation '{self.source.relation.name}' is computed but not stored: the relation "
                f"store cannot be written to ({error}). Make room for it, or name another folder.",
                stacklevel=5,
            )


class PassLevels(PassRows[LevelSource]):
    """The same with dense levels, for exact mode."""

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]."""
        stored = self._read(nodes)
        if stored is not None:
            return stored.dense_levels(self.source.view.num_nodes)
        return self.source.levels(nodes) if self._writer is None else self._both(nodes)[1]

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities, which are always computed, and levels of `nodes`, each [b, V]."""
        stored = self._read(nodes)
        if stored is None:
            return self._both(nodes)
        return self.source.similarities(nodes), stored.dense_levels(self.source.view.num_nodes)

    def _both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        similarities, levels = self.source.both(nodes)
        if self._writer is not None:
            self._write(nodes, SparseRows.of_levels(levels, similarities))
        return similarities, levels


def _rows_at(stored: StoredRelation, nodes: Tensor) -> SparseRows:
    first, last = int(nodes.min()), int(nodes.max())
    rows = stored.rows(first, last + 1).to(nodes.device)
    places = nodes - first
    whole = torch.arange(rows.num_rows, device=nodes.device)
    return rows if torch.equal(places, whole) else rows.at(places)
