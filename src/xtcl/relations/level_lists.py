"""Above pairs of a block of nodes, as lists."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class LevelLists(NamedTuple):
    """Above pairs row by row: the place of u in the block, v, and the level they reach."""

    row: Tensor  # int64 [m]
    node: Tensor  # int64 [m]
    level: Tensor  # uint8 [m], 1 or more
