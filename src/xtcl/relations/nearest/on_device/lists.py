"""Lists of nodes on the device, and the best of each: what `nearest.cut` does.

Sorted by falling similarity within a row, equals in the order of their nodes, the above set is a
beginning of the row: no longer than the cap, and no further than what equals the `place`-th best.
Cost: a sort of all entries.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from xtcl.relations.nearest.cut import TINY, Cut
from xtcl.relations.nearest.rows import NearestRows


class Lists(NamedTuple):
    """Entries of sparse rows [b, V], by row and node: their keys rise."""

    key: Tensor  # int64 [m], row * V + node
    value: Tensor  # [m]
    shape: tuple[int, int]

    @classmethod
    def sorted(cls, key: Tensor, value: Tensor, shape: tuple[int, int]) -> Lists:
        """From entries in any order."""
        key, order = torch.sort(key, stable=True)
        return cls(key, value[order], shape)

    @classmethod
    def of(cls, found: NearestRows, num_nodes: int) -> Lists:
        """From the result of a search."""
        shape = (len(found.start) - 1, num_nodes)
        return cls(found.rows * num_nodes + found.nodes, found.similarities, shape)

    @property
    def row(self) -> Tensor:
        """Of every entry."""
        return self.key // self.shape[1]

    @property
    def node(self) -> Tensor:
        """Of every entry."""
        return self.key % self.shape[1]

    @property
    def start(self) -> Tensor:
        """Where rows begin, and the last one ends: int64 [b + 1]."""
        return row_starts(self.key, self.shape)


def row_starts(key: Tensor, shape: tuple[int, int]) -> Tensor:
    """Where the rows of rising keys begin, and the last one ends."""
    height, width = shape
    return torch.searchsorted(key, width * torch.arange(height + 1, device=key.device))


def best_of_lists(lists: Lists, nodes: Tensor, cut: Cut) -> NearestRows:
    """Cut lists that belong to `nodes`; what is below TINY, and a node itself, does not count."""
    height, width = lists.shape
    own = torch.arange(height, device=nodes.device) * width + nodes
    row, start, value = lists.row, lists.start, lists.value.float()
    value = torch.where((value >= TINY) & (lists.key != own[row]), value, 0.0)
    order = descending(row, value)
    ranked = value[order]  # each row where it was before
    turn = torch.arange(len(row), device=row.device) - start[row]
    least = at_place(ranked, start, cut.place).clamp_min(TINY)
    chosen = order[(turn < cut.cap) & (ranked >= least[row])].sort().values
    key = lists.key[chosen]
    return NearestRows(row_starts(key, lists.shape), key % width, value[chosen])


def descending(row: Tensor, value: Tensor) -> Tensor:
    """The order by rising row and falling value, which is not negative; equals as they lie."""
    # Such floats are in the order of their bits: one sort of integers does for all rows.
    bits = value.view(torch.int32).long()
    return torch.sort((row << 32) - bits, stable=True).indices


def at_place(ranked: Tensor, start: Tensor, place: int) -> Tensor:
    """The `place`-th of every row, 0 where there are not so many."""
    entry = start[:-1] + (place - 1)
    none = len(ranked)
    return torch.nn.functional.pad(ranked, (0, 1))[torch.where(entry < start[1:], entry, none)]


def floors(lists: Lists, place: int) -> Tensor:
    """The `place`-th largest of every row, 0 where there are not so many: float32 [b]."""
    ranked = lists.value[descending(lists.row, lists.value)]
    return at_place(ranked, lists.start, place)
