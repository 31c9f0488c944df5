"""Levels of one relation over one pass: read from the store, or written to it on the way."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import numpy as np
from torch import Tensor

from xtcl.relations.above_rows import AboveRows
from xtcl.relations.level_rows import ComputedLevels, LevelRows
from xtcl.relations.store.pairs_file import PairsWriter
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.store.stored_relation import DamagedFileError, StoredRelation


@contextmanager
def levels_over(
    store: RelationStore,
    computed: ComputedLevels,
    nodes: np.ndarray,
    whole: np.ndarray | None = None,
) -> Iterator[LevelRows]:
    """The levels of `computed` for one pass over blocks of `nodes`, in their order.

    Rows of some nodes are found in their own file, in that of the `whole` pass they are a share of,
    or in that of all nodes. What is in none is computed and kept, provided that the pass goes
    through and the nodes rise.
    """
    if computed.relation.foreign or not len(nodes):
        yield computed
        return
    key = computed.view, computed.relation, computed.quantiles
    some = np.unique(nodes)
    # Each of the three holds the one before, so that sizes tell them apart.
    files: dict[int, np.ndarray | None] = {len(some): some}
    files |= {} if whole is None else {len(rows := np.unique(whole)): rows}
    files |= {computed.view.num_nodes: None}
    chosen = files[len(some)]
    found = (store.get(*key, rows) for rows in files.values())
    stored = next((file for file in found if file is not None), None)
    if stored is not None:
        with closing(StoredLevels(store, stored, computed, chosen)) as read:
            yield read
    elif np.array_equal(some, nodes):
        with ExitStack() as stack:
            writer = stack.enter_context(store.writing(*key, chosen))
            recorded = RecordedLevels(writer, computed)
            yield recorded
            with recorded.forgiving():
                stack.close()
    else:
        yield computed


class StoredLevels:
    """Levels that are read; similarities are computed, and only where they are asked for."""

    def __init__(
        self,
        store: RelationStore,
        stored: StoredRelation,
        computed: ComputedLevels,
        chosen: np.ndarray | None,
    ) -> None:
        self._store = store
        self._stored = stored
        self._computed = computed
        self._chosen = chosen

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]."""
        first, last = int(nodes.min()), int(nodes.max()) + 1
        try:
            rows = self._stored.rows(first, last)
        except DamagedFileError as damage:
            warnings.warn(str(damage), stacklevel=2)
            self.close()
            own = self._computed
            self._stored = self._store.open_or_compute(
                own.view, own.relation, own.quantiles, self._chosen
            )
            rows = self._stored.rows(first, last)
        return rows.level_block(nodes, self._stored.num_nodes)

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""
        return self._computed.similarities(nodes), self.levels(nodes)

    def close(self) -> None:
        """Close the file that is read."""
        self._stored.close()


class RecordedLevels:
    """Levels that are computed and written as they pass by, for as long as writing goes well."""

    def __init__(self, writer: PairsWriter, computed: ComputedLevels) -> None:
        self._writer: PairsWriter | None = writer
        self._computed = computed
        self._last = -1  # the last node whose row was written

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]."""
        return self.both(nodes)[1]

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""
        similarities, levels = self._computed.both(nodes)
        # A block that ran out of memory is asked for again, in halves.
        if self._writer is not None and int(nodes[-1]) > self._last:
            rows = AboveRows.of_block(nodes, similarities, levels)
            with self.forgiving():
                self._writer.append(nodes.cpu().numpy(), rows)
                self._last = int(nodes[-1])
        return similarities, levels

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """Go on without the store where it cannot be written to: a full disk must not end a fit."""
        try:
            yield
        except OSError as trouble:
            self._writer = None
            warnings.warn(
                f"Relation '{self._computed.relation.name}' is computed but not kept: the relation "
                f"store cannot be written to ({trouble}). Make room for it.",
                stacklevel=4,
            )
