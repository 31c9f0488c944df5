"""Lists of top-k mode over one pass: read from the store, or written to it on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from torch import Tensor

from xtcl.relations.level_lists import LevelLists
from xtcl.relations.searched_lists import SearchedLists
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.store.row_passes import StoredRows, rows_over

Lists = Callable[[Tensor], LevelLists]
"""Takes node indices [b], gives the lists of one relation."""


@contextmanager
def lists_over(
    store: RelationStore,
    searched: SearchedLists,
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
