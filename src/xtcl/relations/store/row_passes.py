"""Rows of one relation over one pass: read from the store, or written to it on the way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import numpy as np
from torch import Tensor

from xtcl.relations.above_rows import AboveRows
from xtcl.relations.row_source import RowSource
from xtcl.relations.store.pairs_file import PairsWriter
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.store.stored_relation import DamagedFileError, StoredRelation


@contextmanager
def rows_over(
    store: RelationStore,
    source: RowSource,
    nodes: np.ndarray,
    whole: np.ndarray | None = None,
) -> Iterator[StoredRows | RecordedRows | None]:
    """The rows of `source` for one pass over blocks of `nodes`, in their order.

    Rows of some nodes are found in their own file, in that of the `whole` pass they are a share of,
    or in that of all nodes. What is in none is computed and kept, provided that the pass goes
    through and the nodes rise. None is for rows that the store has no part in.
    """
    if source.relation.foreign or not len(nodes):
        yield None
        return
    key = source.view, source.relation, source.quantiles
    settings = source.settings
    some = np.unique(nodes)
    # Each of the three holds the one before, so that sizes tell them apart.
    files: dict[int, np.ndarray | None] = {len(some): some}
    files |= {} if whole is None else {len(rows := np.unique(whole)): rows}
    files |= {source.view.num_nodes: None}
    chosen = files[len(some)]
    found = (store.get(*key, rows, settings) for rows in files.values())
    stored = next((file for file in found if file is not None), None)
    if stored is not None:
        with closing(StoredRows(store, stored, source, chosen)) as read:
            yield read
    elif np.array_equal(some, nodes):
        with ExitStack() as stack:
            writer = stack.enter_context(store.writing(*key, chosen, settings))
            recorded = RecordedRows(writer, source)
            yield recorded
            writer.notes = source.notes
            with recorded.forgiving():
                stack.close()
    else:
        yield None


class StoredRows:
    """Rows that are read; computed and kept anew where the file turns out to be damaged."""

    def __init__(
        self,
        store: RelationStore,
        stored: StoredRelation,
        source: RowSource,
        chosen: np.ndarray | None,
    ) -> None:
        self._store = store
        self._stored = stored
        self._source = source
        self._chosen = chosen

    @property
    def notes(self) -> Mapping[str, Any]:
        """What was noted when they were computed."""
        return self._stored.notes

    def __call__(self, nodes: Tensor) -> AboveRows:
        """The rows from the first to the last of `nodes`."""
        first, last = int(nodes.min()), int(nodes.max()) + 1
        try:
            return self._stored.rows(first, last)
        except DamagedFileError as damage:
            warnings.warn(str(damage), stacklevel=2)
            self.close()
            self._stored = self._store.kept(self._source, self._chosen)
            return self._stored.rows(first, last)

    def close(self) -> None:
        """Close the file that is read."""
        self._stored.close()


class RecordedRows:
    """Rows that are computed and written as they pass by, for as long as writing goes well."""

    def __init__(self, writer: PairsWriter, source: RowSource) -> None:
        self._writer: PairsWriter | None = writer
        self._source = source
        self._last = -1  # the last node whose row was written

    def __call__(self, nodes: Tensor) -> AboveRows:
        """The rows of `nodes`, computed."""
        rows = self._source.rows(nodes)
        self.keep(nodes, lambda: rows)
        return rows

    def keep(self, nodes: Tensor, rows: Callable[[], AboveRows]) -> None:
        """Write the `rows` of `nodes`, unless they are there."""
        # A block that ran out of memory is asked for again, in halves.
        if self._writer is not None and int(nodes[-1]) > self._last:
            with self.forgiving():
                self._writer.append(nodes.cpu().numpy(), rows())
                self._last = int(nodes[-1])

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Go on without the store where it cannot be written to: a full disk must not end a fit."""
        try:
            yield
        except OSError as trouble:
            self._writer = None
            warnings.warn(
                f"Relation '{self._source.relation.name}' is computed but not kept: the relation "
                f"store cannot be written to ({trouble}). Make room for it.",
                stacklevel=4,
            )
