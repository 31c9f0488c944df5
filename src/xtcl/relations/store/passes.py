"""Levels of one relation over one pass: read from the store, or written to it on the way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import numpy as np
from torch import Tensor

from xtcl.relations.row_source import Levels, LevelSource, RowSource, TopKSource
from xtcl.relations.sparse import AboveRows, LevelLists
from xtcl.relations.store.parquet import DamagedFileError, PairsWriter, StoredRelation
from xtcl.relations.store.relation_store import RelationStore


@contextmanager
def levels_over(
    store: RelationStore,
    computed: LevelSource,
    nodes: np.ndarray,
    whole: np.ndarray | None = None,
) -> Iterator[Levels]:
    """The levels of `computed` for one pass over blocks of `nodes`; see `rows_over`."""
    with rows_over(store, computed, nodes, whole) as rows:
        if isinstance(rows, StoredRows):
            yield StoredLevels(rows, computed)
        elif isinstance(rows, WriteThroughRows):
            yield WriteThroughLevels(rows, computed)
        else:
            yield computed


class StoredLevels:
    """Levels that are read; similarities are computed, and only where they are asked for."""

    def __init__(self, stored: StoredRows, computed: LevelSource) -> None:
        self._stored = stored
        self._computed = computed

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]."""
        return self._stored(nodes).level_block(nodes, self._computed.view.num_nodes)

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""
        return self._computed.similarities(nodes), self.levels(nodes)


class WriteThroughLevels:
    """Levels that are computed, and written as they pass by."""

    def __init__(self, recorded: WriteThroughRows, computed: LevelSource) -> None:
        self._recorded = recorded
        self._computed = computed

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]."""
        return self.both(nodes)[1]

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""
        similarities, levels = self._computed.both(nodes)
        self._recorded.keep(nodes, lambda: AboveRows.of_block(nodes, similarities, levels))
        return similarities, levels


Lists = Callable[[Tensor], LevelLists]
"""Takes node indices [b], gives the lists of one relation."""


@contextmanager
def lists_over(
    store: RelationStore,
    searched: TopKSource,
    nodes: np.ndarray,
    whole: np.ndarray | None = None,
) -> Iterator[Lists]:
    """The lists of `searched` for one pass over blocks of `nodes`; see `rows_over`."""
    with rows_over(store, searched, nodes, whole) as rows:
        if rows is None:
            yield searched.lists
            return
        if isinstance(rows, StoredRows):
            searched.index_recall = rows.notes.get("index_recall")
        yield lambda asked: rows(asked).lists(asked)


@contextmanager
def rows_over(
    store: RelationStore,
    source: RowSource,
    nodes: np.ndarray,
    whole: np.ndarray | None = None,
) -> Iterator[StoredRows | WriteThroughRows | None]:
    """The rows of `source` for one pass over blocks of `nodes`, in their order.

    Rows of some nodes are found in their own file, in that of the `whole` pass they are a share of,
    or in that of all nodes. What is in none is computed and kept, provided that the pass goes
    through and the nodes rise. None is for rows that the store has no part in.
    """
    if not source.relation.cacheable or not len(nodes):
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
            recorded = WriteThroughRows(source)
            with recorded.forgiving():
                recorded.begin(stack.enter_context(store.writing(*key, chosen, settings)))
            yield recorded
            with recorded.forgiving():
                recorded.end()
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
        self._stored: StoredRelation | None = stored
        self._source = source
        self._chosen = chosen

    @property
    def notes(self) -> Mapping[str, Any]:
        """What was noted when they were computed."""
        return self._source.notes if self._stored is None else self._stored.notes

    def __call__(self, nodes: Tensor) -> AboveRows:
        """The rows from the first to the last of `nodes`."""
        span = int(nodes.min()), int(nodes.max()) + 1
        try:
            if self._stored is not None:
                return self._stored.rows(*span)
        except DamagedFileError as damage:
            warnings.warn(str(damage), stacklevel=2)
            self.close()
            with forgiving(self._source.relation.name):
                self._stored = self._store.kept(self._source, self._chosen)
                return self._stored.rows(*span)
        return self._source.rows(nodes)

    def close(self) -> None:
        """Close the file that is read."""
        if self._stored is not None:
            self._stored.close()
        self._stored = None


class WriteThroughRows:
    """Rows that are computed and written as they pass by, for as long as writing goes well."""

    def __init__(self, source: RowSource) -> None:
        self._writer: PairsWriter | None = None
        self._source = source
        self._last = -1  # the last node whose row was written

    def begin(self, writer: PairsWriter) -> None:
        """Write from now on."""
        self._writer = writer

    def end(self) -> None:
        """Write what is known about the rows now that they are there."""
        if self._writer is not None:
            self._writer.notes = self._source.notes

    def __call__(self, nodes: Tensor) -> AboveRows:
        """The rows of `nodes`, computed."""
        rows = self._source.rows(nodes)
        self.keep(nodes, lambda: rows)
        return rows

    def keep(self, nodes: Tensor, rows: Callable[[], AboveRows]) -> None:
        """Write the `rows` of `nodes`, but for those that are there."""
        # A block that ran out of memory is asked for again, in halves that may end elsewhere.
        last = int(nodes[-1])
        if self._writer is not None and last > self._last:
            new = nodes[nodes > self._last].cpu().numpy()
            with self.forgiving():
                self._writer.append(new, rows().between(int(new[0]), last + 1))
                self._last = last

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Go on without the store where it cannot be written to."""
        with forgiving(self._source.relation.name):
            try:
                yield
            except OSError:
                self._writer = None
                raise


@contextmanager
def forgiving(name: str) -> Iterator[None]:
    """Say that a relation is not kept where it cannot be: a full disk must not end a fit."""
    try:
        yield
    except OSError as trouble:
        warnings.warn(
            f"Relation '{name}' is computed but not kept: the relation store cannot be written to "
            f"({trouble}). Make room for it, or name another folder.",
            stacklevel=5,
        )
