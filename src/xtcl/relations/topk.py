"""The best few of every row of a relation, found without making the row where it is sparse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.blocks import thread_map
from xtcl.relations.relation import SimilarityRows
from xtcl.relations.thresholds import check_quantiles, rank_from_top
from xtcl.relations.view import TrainingView

# The above set of a row, cut to its best.
#
# With k the rank of the quantile from the top, a pair is above when it is no smaller than the k-th
# largest of the row (and > 0). Of these the `cap` best stay, equals in the order of their nodes.
# So
# the floor is the largest but min(k, cap) - 1: all that is larger stays, and of what equals it as
# much as the cap leaves room for. The `cap` best positive entries of a row are all it takes to
# know.


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


def topk_of_lists_numpy(lists: sp.csr_array, nodes: np.ndarray, cut: Cut) -> sp.csr_array:
    """Cut the rows of a sparse matrix, in any order, that belong to `nodes`; sorted by node."""
    lists = lists.astype(np.float32, copy=False)
    lists = selected_places(lists, (lists.data >= TINY) & (lists.indices != nodes[rows_of(lists)]))
    floor = kth_largest_numpy(lists, cut.place)
    lists = selected_places(lists, lists.data >= floor[rows_of(lists)])
    lists.sort_indices()
    row = rows_of(lists)
    larger = lists.data > floor[row]
    room = cut.cap - np.bincount(row[larger], minlength=len(nodes))
    equals = np.concatenate([[0], np.cumsum(~larger)])
    place = equals[1:] - equals[lists.indptr[row]]
    return selected_places(lists, larger | (place <= room[row]))


def selected_places(lists: sp.csr_array, kept: np.ndarray) -> sp.csr_array:
    """The entries that are `kept`."""
    start = np.concatenate([[0], np.cumsum(kept)])[lists.indptr]
    return sp.csr_array((lists.data[kept], lists.indices[kept], start), shape=lists.shape)


def kth_largest_numpy(lists: sp.csr_array, place: int) -> np.ndarray:
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


def topk_of_rows(similarities: Tensor, nodes: Tensor, cut: Cut) -> Tensor:
    """Which of the whole rows [b, V] stays: bool [b, V]."""
    others = similarities.clone()
    others[torch.arange(len(nodes), device=nodes.device), nodes] = 0.0
    floor = torch.topk(others, cut.place, dim=1).values[:, -1:].clamp_min(TINY)
    larger = others > floor
    equal = others == floor
    room = cut.cap - larger.sum(dim=1, keepdim=True)
    return larger | (equal & (equal.cumsum(dim=1) <= room))


def topk_from_dense(rows: SimilarityRows, cut: Cut) -> Nearest:
    """Cost: that of the rows, and O(tile V) memory."""

    def find(nodes: Tensor) -> NearestRows:
        lengths, found, values = [], [], []
        for part in torch.split(nodes.to(rows.device), rows.tile):
            similarities = rows(part)
            kept = topk_of_rows(similarities, part, cut)
            lengths.append(kept.sum(dim=1))
            found.append(kept.nonzero()[:, 1])
            values.append(similarities[kept])
        start = torch.nn.functional.pad(torch.cat(lengths).cumsum(0), (1, 0))
        return NearestRows(start, torch.cat(found), torch.cat(values))

    return find


# The levels that the pairs of capped lists reach, when there are several quantiles.
#
# A list holds the above set of the lowest quantile, cut to the `cap` best. Of a higher quantile
# with
# rank k from the top, the k-th largest of the list is the threshold; where the list is shorter, be
# it
# cut or for want of positive similarities, all of it is above. So a level counts the quantiles of
# which a pair is in the capped above set.


def list_places(quantiles: Sequence[float], cap: int, num_nodes: int) -> list[int]:
    """Which of a list, counted from the largest as 1, is the least above for each quantile."""
    return [min(max(rank_from_top(q, num_nodes - 1), 1), cap) for q in quantiles]


def list_thresholds(lists: sp.csr_array, quantiles: Sequence[float], cap: int) -> np.ndarray:
    """The least that is above in each row of `lists` [b, V], for each quantile: float32 [b, L]."""
    places = list_places(quantiles, cap, lists.shape[1])
    return np.stack([kth_largest_numpy(lists, place) for place in places], axis=1)


def list_levels_numpy(lists: sp.csr_array, quantiles: Sequence[float], cap: int) -> np.ndarray:
    """How many quantiles each entry is above for, uint8 [m]; the lowest one's are all."""
    reached = np.ones(lists.nnz, dtype=np.uint8)
    if len(quantiles) > 1:
        row = rows_of(lists)
        for floor in list_thresholds(lists, quantiles[1:], cap).T:
            reached += lists.data >= np.maximum(floor, TINY)[row]
    return reached


def list_levels(found: NearestRows, quantiles: Sequence[float], cap: int, num_nodes: int) -> Tensor:
    """How many quantiles each entry is above for, uint8 [m]; the lowest one's are all."""
    lists = Lists.of(found, num_nodes)
    reached = torch.ones(len(lists.key), dtype=torch.uint8, device=lists.key.device)
    for place in list_places(quantiles[1:], cap, num_nodes):
        reached += lists.value >= kth_largest(lists, place).clamp_min(TINY)[lists.row]
    return reached


# Lists of nodes on the device, and the best of each: what `nearest.cut` does.
#
# Sorted by falling similarity within a row, equals in the order of their nodes, the above set is a
# beginning of the row: no longer than the cap, and no further than what equals the `place`-th
# best.
# Cost: a sort of all entries.


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


def topk_of_lists(lists: Lists, nodes: Tensor, cut: Cut) -> NearestRows:
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


def kth_largest(lists: Lists, place: int) -> Tensor:
    """The `place`-th largest of every row, 0 where there are not so many: float32 [b]."""
    ranked = lists.value[descending(lists.row, lists.value)]
    return at_place(ranked, lists.start, place)


MAX_ITEMS = 2**24
"""Entries of a part, but for a single node's: some 2 GB with their order and what sorts them."""


Explore = Callable[[Tensor], Lists]
"""Takes nodes [b], gives lists that hold at least the best of each row."""


def parts(nodes: Tensor, paths: Tensor, most: int | None = None) -> tuple[Tensor, ...]:
    """`nodes` in parts of about `most` (MAX_PATHS) `paths` [b] together, or one node's more."""
    share = paths.cumsum(0) // (most or MAX_ITEMS)
    length = torch.unique_consecutive(share, return_counts=True)[1].tolist()
    return torch.split(nodes, length or [0])


def in_parts(explore: Explore, paths: np.ndarray, cut: Cut, view: TrainingView) -> Nearest:
    """Explore from all nodes of a part together; `paths` [V] bounds what each will list."""
    bound = torch.from_numpy(paths).to(view.device)

    def find(nodes: Tensor) -> NearestRows:
        asked = nodes.to(view.device)
        found = [topk_of_lists(explore(part), part, cut) for part in parts(asked, bound[asked])]
        return NearestRows.joined(found)

    return find


DEVICES = frozenset({"cuda"})
"""Types of devices. Torch would do it on a CPU, too, but not as quickly as NumPy and SciPy."""


def uses_torch_search(device: torch.device) -> bool:
    """Whether graphs that lie on `device` are searched there."""
    return device.type in DEVICES


MAX_ITEMS_NUMPY = 2**22
"""Entries that the parts at work may list together, but for a single node's: some 100 MB."""


ExploreNumPy = Callable[[np.ndarray], sp.csr_array]
"""Takes nodes [b], gives a sparse matrix [b, V] that holds at least the best of each row."""


def room() -> int:
    """Entries for each of the threads."""
    return max(1, MAX_ITEMS_NUMPY // torch.get_num_threads())


def parts_numpy(nodes: np.ndarray, paths: np.ndarray) -> list[np.ndarray]:
    """`nodes` in parts that have about `room` for their paths together, or one node's more."""
    share = np.cumsum(paths, dtype=np.int64) // room()
    return np.split(nodes, np.flatnonzero(np.diff(share)) + 1)


def in_parts_numpy(
    explore: ExploreNumPy, paths: np.ndarray, cut: Cut, view: TrainingView
) -> Nearest:
    """Explore from all nodes of a part together; `paths` [V] bounds what each will list."""

    def best(part: np.ndarray) -> sp.csr_array:
        return topk_of_lists_numpy(explore(part), part, cut)

    def find(nodes: Tensor) -> NearestRows:
        asked = nodes.cpu().numpy()
        found = thread_map(best, parts_numpy(asked, paths[asked]))
        return NearestRows.of(sp.csr_array(sp.vstack(found, format="csr")), view.device)

    return find


def ranges_numpy(start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The `length` numbers from `start` on, for one pair after the other."""
    before = np.cumsum(length) - length
    return np.asarray(np.arange(length.sum()) + np.repeat(start - before, length))


class NearestRows(NamedTuple):
    """Lists of nodes in CSR form: that of the i-th node asked for is start[i] : start[i + 1]."""

    start: Tensor  # int64 [b + 1]
    nodes: Tensor  # int64 [m], ascending within a row
    similarities: Tensor  # float32 [m]

    @classmethod
    def of(cls, lists: sp.csr_array, device: torch.device) -> NearestRows:
        """From a sparse matrix [b, V] with sorted indices."""
        return cls(
            torch.from_numpy(lists.indptr.astype(np.int64)).to(device),
            torch.from_numpy(lists.indices.astype(np.int64)).to(device),
            torch.from_numpy(lists.data.astype(np.float32)).to(device),
        )

    @classmethod
    def joined(cls, parts: Sequence[NearestRows]) -> NearestRows:
        """One part after the other, of one at least."""
        if len(parts) == 1:
            return parts[0]
        length = torch.cat([part.start.diff() for part in parts])
        return cls(
            torch.nn.functional.pad(length.cumsum(0), (1, 0)),
            torch.cat([part.nodes for part in parts]),
            torch.cat([part.similarities for part in parts]),
        )

    @property
    def rows(self) -> Tensor:
        """The place, among the nodes asked for, of the one whose list an entry is in: int64 [m]."""
        places = torch.arange(len(self.start) - 1, device=self.start.device)
        return torch.repeat_interleave(places, self.start.diff(), output_size=len(self.nodes))

    def matrix(self, num_nodes: int) -> sp.csr_array:
        """As a sparse matrix [b, V]."""
        start, nodes, similarities = (part.cpu().numpy() for part in self)
        return sp.csr_array((similarities, nodes, start), shape=(len(start) - 1, num_nodes))


Nearest = Callable[[Tensor], NearestRows]
"""Takes node indices [b], gives the above set of each, cut to the cap."""


def recall(found: NearestRows, expected: NearestRows, num_nodes: int) -> float:
    """Share of the expected pairs that were found; 1 where none was expected."""
    wanted = expected.matrix(num_nodes)
    hits = found.matrix(num_nodes).astype(bool).multiply(wanted.astype(bool)).nnz
    return hits / wanted.nnz if wanted.nnz else 1.0
