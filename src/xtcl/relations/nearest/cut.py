r"""The above set of a row, cut to its best.

With k the rank of the quantile from the top, a pair is above when it is no smaller than the k-th
largest of the row (and > 0). Of these the `cap` best stay, equals in the order of their nodes. So
the floor is the largest but min(k, cap) - 1: all that is larger stays, and of what equals it as
much as the cap leaves room for. The `cap` best positive entries of a row are all it takes to know.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.thresholds import check_quantiles, rank_from_top

TINY = float(np.finfo(np.float32).tiny)
"""The smallest similarity that counts as positive, as for the thresholds."""


class Cut(NamedTuple):
    """At most `cap` of a row; its `place`-th best is the least that may stay.

    `full` says that the threshold has a say, or that there is room for all: then a search that
    rounds otherwise than whole rows do, or leaves something out, would not do.
    """

    cap: int
    place: int
    full: bool = False

    @classmethod
    def of(cls, quantile: float, cap: int, num_nodes: int) -> Cut:
        """The cut of a row with V - 1 other nodes."""
        check_quantiles([quantile])
        if cap < 1:
            raise UsageError(f"cap={cap} must be at least 1.")
        others = max(num_nodes - 1, 1)
        rank = max(rank_from_top(quantile, num_nodes - 1), 1)
        return cls(min(cap, others), min(cap, rank), full=cap > rank or cap >= others)


def rows_of(lists: sp.csr_array) -> np.ndarray:
    """The row of every entry."""
    return np.repeat(np.arange(lists.shape[0]), np.diff(lists.indptr))


def best_of_lists(lists: sp.csr_array, nodes: np.ndarray, cut: Cut) -> sp.csr_array:
    """Cut the rows of a sparse matrix, in any order, that belong to `nodes`; sorted by node."""
    lists = lists.astype(np.float32, copy=False)
    lists = chosen(lists, (lists.data >= TINY) & (lists.indices != nodes[rows_of(lists)]))
    floor = floors(lists, cut.place)
    lists = chosen(lists, lists.data >= floor[rows_of(lists)])
    lists.sort_indices()
    row = rows_of(lists)
    larger = lists.data > floor[row]
    room = cut.cap - np.bincount(row[larger], minlength=len(nodes))
    equals = np.concatenate([[0], np.cumsum(~larger)])
    place = equals[1:] - equals[lists.indptr[row]]
    return chosen(lists, larger | (place <= room[row]))


def chosen(lists: sp.csr_array, kept: np.ndarray) -> sp.csr_array:
    """The entries that are `kept`."""
    start = np.concatenate([[0], np.cumsum(kept)])[lists.indptr]
    return sp.csr_array((lists.data[kept], lists.indices[kept], start), shape=lists.shape)


def floors(lists: sp.csr_array, place: int) -> np.ndarray:
    """The `place`-th largest of every row, 0 where there are not so many."""
    floor = np.zeros(lists.shape[0], dtype=np.float32)
    length = np.diff(lists.indptr)
    # Positive floats are in the order of their bits: one sort of integers does for all rows, and
    # a stable one merges the rows as they lie, in half the time.
    highest = np.int64(2**31 - 1)
    bits = np.ascontiguousarray(lists.data).view(np.int32)
    key = (rows_of(lists).astype(np.int64) << 32) + (highest - bits)
    key.sort(kind="stable")
    long = np.flatnonzero(length >= place)
    found = highest - (key[lists.indptr[long] + place - 1] & (2**32 - 1))
    floor[long] = found.astype(np.int32).view(np.float32)
    return floor


def best_of_rows(similarities: Tensor, nodes: Tensor, cut: Cut) -> Tensor:
    """Which of the whole rows [b, V] stays: bool [b, V]."""
    others = similarities.clone()
    others[torch.arange(len(nodes), device=nodes.device), nodes] = 0.0
    floor = torch.topk(others, cut.place, dim=1).values[:, -1:].clamp_min(TINY)
    larger = others > floor
    equal = others == floor
    room = cut.cap - larger.sum(dim=1, keepdim=True)
    return larger | (equal & (equal.cumsum(dim=1) <= room))
