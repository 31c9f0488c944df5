"""Levels of one relation over one pass: read from the store, or written to it on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from torch import Tensor

from xtcl.relations.above_rows import AboveRows
from xtcl.relations.level_rows import ComputedLevels, LevelRows
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.store.row_passes import RecordedRows, StoredRows, rows_over


@contextmanager
def levels_over(
    store: RelationStore,
    computed: ComputedLevels,
    nodes: np.ndarray,
    whole: np.ndarray | None = None,
) -> Iterator[LevelRows]:
    """The levels of `computed` for one pass over blocks of `nodes`; see `rows_over`."""
    with rows_over(store, computed, nodes, whole) as rows:
        if isinstance(rows, StoredRows):
            yield StoredLevels(rows, computed)
        elif isinstance(rows, RecordedRows):
            yield RecordedLevels(rows, computed)
        else:
            yield computed


class StoredLevels:
    """Levels that are read; similarities are computed, and only where they are asked for."""

    def __init__(self, stored: StoredRows, computed: ComputedLevels) -> None:
        self._stored = stored
        self._computed = computed

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]."""
        return self._stored(nodes).level_block(nodes, self._computed.view.num_nodes)

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""
        return self._computed.similarities(nodes), self.levels(nodes)


class RecordedLevels:
    """Levels that are computed, and written as they pass by."""

    def __init__(self, recorded: RecordedRows, computed: ComputedLevels) -> None:
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
