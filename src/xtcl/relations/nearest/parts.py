"""Explorations of sparse graphs, in parts that fit into memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.nearest.cut import Cut, best_of_lists
from xtcl.relations.nearest.rows import Nearest, NearestRows
from xtcl.relations.side_by_side import side_by_side
from xtcl.relations.view import TrainingView

MAX_PATHS = 2**22
"""Entries that the parts at work may list together, but for a single node's: some 100 MB."""

Explore = Callable[[np.ndarray], sp.csr_array]
"""Takes nodes [b], gives a sparse matrix [b, V] that holds at least the best of each row."""


def room() -> int:
    """Entries for each of the threads."""
    return max(1, MAX_PATHS // torch.get_num_threads())


def parts(nodes: np.ndarray, paths: np.ndarray) -> list[np.ndarray]:
    """`nodes` in parts that have about `room` for their paths together, or one node's more."""
    share = np.cumsum(paths, dtype=np.int64) // room()
    return np.split(nodes, np.flatnonzero(np.diff(share)) + 1)


def in_parts(explore: Explore, paths: np.ndarray, cut: Cut, view: TrainingView) -> Nearest:
    """Explore from all nodes of a part together; `paths` [V] bounds what each will list."""

    def best(part: np.ndarray) -> sp.csr_array:
        return best_of_lists(explore(part), part, cut)

    def find(nodes: Tensor) -> NearestRows:
        asked = nodes.cpu().numpy()
        found = side_by_side(best, parts(asked, paths[asked]))
        return NearestRows.of(sp.csr_array(sp.vstack(found, format="csr")), view.device)

    return find


def ranges(start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The `length` numbers from `start` on, for one pair after the other."""
    before = np.cumsum(length) - length
    return np.asarray(np.arange(length.sum()) + np.repeat(start - before, length))
