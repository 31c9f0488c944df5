"""Explorations of sparse graphs on the device, in parts that fit into its memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.on_device.lists import Lists, best_of_lists
from xtcl.relations.nearest.rows import Nearest, NearestRows
from xtcl.relations.view import TrainingView

MAX_PATHS = 2**24
"""Entries of a part, but for a single node's: some 2 GB with their order and what sorts them."""

Explore = Callable[[Tensor], Lists]
"""Takes nodes [b], gives lists that hold at least the best of each row."""


def parts(nodes: Tensor, paths: Tensor, most: int | None = None) -> tuple[Tensor, ...]:
    """`nodes` in parts of about `most` (MAX_PATHS) `paths` [b] together, or one node's more."""
    share = paths.cumsum(0) // (most or MAX_PATHS)
    length = torch.unique_consecutive(share, return_counts=True)[1].tolist()
    return torch.split(nodes, length or [0])


def in_parts(explore: Explore, paths: np.ndarray, cut: Cut, view: TrainingView) -> Nearest:
    """Explore from all nodes of a part together; `paths` [V] bounds what each will list."""
    bound = torch.from_numpy(paths).to(view.device)

    def find(nodes: Tensor) -> NearestRows:
        asked = nodes.to(view.device)
        found = [best_of_lists(explore(part), part, cut) for part in parts(asked, bound[asked])]
        return NearestRows.joined(found)

    return find
