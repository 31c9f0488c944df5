"""The most similar nodes of every row of a relation, without whole rows where it is sparse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.blocks import thread_map
from xtcl.relations.relation import Relation, SimilarityRows, check_similarities
from xtcl.relations.search import index_name
from xtcl.relations.sparse import CSRGraph, SparseRows, row_entries, sorted_keys
from xtcl.relations.thresholds import check_quantiles, rank_from_top
from xtcl.relations.view import TrainingView

TINY = float(np.finfo(np.float32).tiny)
"""The smallest similarity that counts as positive, as for the thresholds."""

MAX_ITEMS, MAX_ITEMS_GPU = 2**21, 2**24
"""Entries that a search lists at once, except for a single node's: some 150 MB on a CPU, shared by
its threads, and some 2 GB on a GPU, with their order and what sorts them."""


class TopK(NamedTuple):
    """What top-k mode keeps of a row: the `k` most similar of the above pairs.

    Let q be the rank of the quantile, counted from the largest. A pair is above when its similarity
    is positive and no smaller than the q-th largest of the row. At most k above pairs stay; of
    equally similar nodes those with lower numbers come first.

    So the threshold is the min(k, q)-th largest similarity. Every larger one stays, and those that
    equal it stay until there are k. The k largest positive similarities of a row decide all this.
    """

    k: int
    place: int
    """min(k, q): the `place`-th best of a row is the least that may stay."""
    full: bool = False
    """Whether the threshold decides, or there is room for all. A search must then find exactly what
    whole rows have: it may neither round differently nor leave anything out."""
    index_threshold: int | None = None
    """With more different rows of factors than this, an index may be searched (FAISS, on a CPU)."""
    few_queries: bool = False
    """Whether too few rows are wanted to build an index for one view alone."""

    @classmethod
    def of(
        cls,
        quantile: float,
        k: int,
        num_nodes: int,
        index_threshold: int | None = None,
        *,
        few_queries: bool = False,
    ) -> TopK:
        """For rows with V - 1 other nodes."""
        check_quantiles([quantile])
        if k < 1:
            raise UsageError(f"cap={k} must be at least 1.")
        others = max(num_nodes - 1, 1)
        rank = max(rank_from_top(quantile, num_nodes - 1), 1)
        full = k > rank or k >= others
        return cls(min(k, others), min(k, rank), full, index_threshold, few_queries)

    def for_one_view(self) -> TopK:
        """The same without an index if there are few queries: it would serve this view alone."""
        return self._replace(index_threshold=None) if self.few_queries else self


TopKSearch = Callable[[Tensor], SparseRows]
"""Takes node indices [b], returns the best of each with their similarities."""


def topk_search(relation: Relation, view: TrainingView, top: TopK) -> TopKSearch:
    """A search for the above pairs of rows, of each row the `top.k` best.

    With k = V - 1 these are the above pairs of exact mode. A relation without a `topk` of its own
    is computed in whole rows. Where an index was searched, the search has an attribute
    `index_recall`, the share of the best that the index finds.
    """
    if not relation.shared_by_folds:
        return _bound(relation, view, top)
    # An index takes long to build, so views that differ in labels only share it.
    top = top._replace(few_queries=False)
    return view.cached(("topk", relation, top), lambda: _bound(relation, view, top), relation.reads)


def _bound(relation: Relation, view: TrainingView, top: TopK) -> TopKSearch:
    search = relation.topk(view, top)
    if search is None:
        return topk_from_dense(relation.on(view), top)
    return search if relation.in_range else _CheckedSearch(relation.name, search, top)


class _CheckedSearch:
    """Checks what the search of a relation returns, and cuts it to the k best."""

    def __init__(self, name: str, search: TopKSearch, top: TopK) -> None:
        self.name, self.search, self.top = name, search, top
        self.index_recall: float | None = getattr(search, "index_recall", None)

    def __call__(self, nodes: Tensor) -> SparseRows:
        found: object = self.search(nodes)
        if not isinstance(found, SparseRows) or found.value is None or found.num_rows != len(nodes):
            raise UsageError(
                f"The top-k search of relation '{self.name}' must return SparseRows with a value "
                f"for each pair and num_rows={len(nodes)}, one row per given node."
            )
        row, node = found.row.to(nodes.device), found.node.to(nodes.device)
        value = check_similarities(self.name, found.value, nodes[row], node)
        order = torch.argsort(node, stable=True)
        order = order[torch.argsort(row[order], stable=True)]
        lists = SparseRows(row[order], node[order], len(nodes), value[order])
        return topk_of_lists(lists, nodes, self.top)


def index_settings(
    relation: Relation, view: TrainingView, index_threshold: int | None, *, few_queries: bool
) -> dict[str, Any]:
    """The settings that decide the lists of `topk_search` where an index may be used, else nothing.

    An index is used for relations with factors, and only on a CPU: a GPU compares all rows in less
    time. With `few_queries` a relation that reads labels is searched exactly. The index still
    counts, because it may have found the neighbours over which the labels are propagated.
    """
    may_be_used = index_threshold is not None and index_threshold < view.num_nodes
    if not may_be_used or not relation.may_use_index or view.device.type != "cpu":
        return {}
    exactly = {"few": True} if few_queries and relation.reads_labels else {}
    return index_name(index_threshold) | exactly


def topk_from_dense(rows: SimilarityRows, top: TopK) -> TopKSearch:
    """A search in whole rows. Cost: that of the rows, and O(tile V) memory."""

    def best(nodes: Tensor) -> SparseRows:
        similarities = rows(nodes)
        stays = topk_of_rows(similarities, nodes, top)
        row, node = torch.nonzero(stays, as_tuple=True)
        return SparseRows(row, node, len(nodes), similarities[stays])

    def search(nodes: Tensor) -> SparseRows:
        return SparseRows.joined(
            [best(part) for part in torch.split(nodes.to(rows.device), rows.tile)]
        )

    return search


def topk_of_rows(similarities: Tensor, nodes: Tensor, top: TopK) -> Tensor:
    """Which entries of the whole rows [b, V] stay: bool [b, V]."""
    others = similarities.clone()
    others[torch.arange(len(nodes), device=nodes.device), nodes] = 0.0
    least = torch.topk(others, top.place, dim=1).values[:, -1:].clamp_min(TINY)
    larger = others > least
    equal = others == least
    room = top.k - larger.sum(dim=1, keepdim=True)
    return larger | (equal & (equal.cumsum(dim=1) <= room))


Explore = Callable[[Tensor], SparseRows]
"""Takes nodes [b], returns lists that hold at least the best of each row."""


def topk_in_parts(explore: Explore, paths: np.ndarray, top: TopK, view: TrainingView) -> TopKSearch:
    """Explore from all nodes of a part together; `paths` [V] bounds what each will list."""
    bound = torch.from_numpy(paths).to(view.device)

    def best(part: Tensor) -> SparseRows:
        return topk_of_lists(explore(part), part, top)

    def search(nodes: Tensor) -> SparseRows:
        nodes = nodes.to(view.device)
        return SparseRows.joined(map_parts(best, split_by(nodes, bound[nodes])))

    return search


def topk_of_matrix(matrix: sp.csr_array, top: TopK, view: TrainingView) -> TopKSearch:
    """The best entries of each row of a sparse matrix. Cost: O(n log n) for a row of n entries."""
    entries = CSRGraph.from_scipy(matrix, view.device, weighted=True)

    def explore(nodes: Tensor) -> SparseRows:
        row, entry = row_entries(entries.start, nodes)
        return SparseRows(row, entries.column[entry], len(nodes), entries.weights[entry])

    return topk_in_parts(explore, np.diff(matrix.indptr), top, view)


def max_items(device: torch.device) -> int:
    """Entries to list at once: on a CPU for each of the threads."""
    if device.type == "cpu":
        return max(1, MAX_ITEMS // torch.get_num_threads())
    return MAX_ITEMS_GPU


def split_by(nodes: Tensor, items: Tensor, max_sum: int | None = None) -> tuple[Tensor, ...]:
    """`nodes` in parts that have about `max_sum` `items` [b] each, by default `max_items`.

    Only a single node with more items makes a part larger.
    """
    share = items.cumsum(0) // (max_sum or max_items(nodes.device))
    length = torch.unique_consecutive(share, return_counts=True)[1].tolist()
    return torch.split(nodes, length or [0])


def map_parts(work: Explore, parts: Sequence[Tensor]) -> list[SparseRows]:
    """`work` of each part: by the threads of a CPU, one after the other on a GPU."""
    return thread_map(work, parts) if parts[0].is_cpu else [work(part) for part in parts]


def topk_of_lists(lists: SparseRows, nodes: Tensor, top: TopK) -> SparseRows:
    """The best of lists that belong to `nodes`; what is below TINY, and a node itself, is left out.

    The nodes of a row may come in any order; those of the result are ascending. `top.k` entries of
    a row stay at most, and none that is smaller than the `top.place`-th. Of equal ones the first
    nodes stay. Cost: a sort of the entries if a row has more than `top.place`.
    """
    value = lists.values.float()
    stays = (value >= TINY) & (lists.node != nodes.index_select(0, lists.row))
    found = lists._replace(value=torch.where(stays, value, 0.0))
    least = value.new_zeros(lists.num_rows)
    if (lists.length > top.place).any():
        least = kth_largest(found, top.place)
        stays &= found.values >= least.index_select(0, found.row)
    found = _selected(found, torch.nonzero(stays).flatten())
    key = (found.row << 32) + found.node
    if (key[1:] < key[:-1]).any():
        found = _selected(found, torch.sort(key).indices)
    larger = found.values > least.index_select(0, found.row)
    room = top.k - torch.bincount(found.row[larger], minlength=lists.num_rows)
    equal = torch.nn.functional.pad((~larger).cumsum(0), (1, 0))
    place = equal[1:] - equal[found.start].index_select(0, found.row)
    stays = larger | (place <= room.index_select(0, found.row))
    return _selected(found, torch.nonzero(stays).flatten())


def _selected(lists: SparseRows, entry: Tensor) -> SparseRows:
    row, node, value = (
        part.index_select(0, entry) for part in (lists.row, lists.node, lists.values)
    )
    return SparseRows(row, node, lists.num_rows, value)


def kth_largest(lists: SparseRows, place: int) -> Tensor:
    """The `place`-th largest, >= 0, of every row, 0 in shorter rows: float32 [b]."""
    # Such floats are in the order of their bits: one sort of integers is enough for all rows, and
    # leaves each row where it was.
    key = sorted_keys((lists.row << 32) - lists.values.view(torch.int32))
    start = lists.start
    entry, none = start[:-1] + (place - 1), len(key)
    found = torch.nn.functional.pad(key, (0, 1))[torch.where(entry < start[1:], entry, none)]
    first = torch.arange(lists.num_rows, device=key.device) << 32
    return torch.where(entry < start[1:], first - found, 0).int().view(torch.float32)


def list_thresholds(
    lists: SparseRows, quantiles: Sequence[float], k: int, num_nodes: int
) -> Tensor:
    """The least that is above in each row, for each quantile: float32 [b, L].

    `lists` hold the above pairs of the lowest quantile, cut to the `k` best. For a higher quantile
    with rank q from the top, the q-th largest of a list is the threshold. In a shorter list,
    because it was cut or has no more positive similarities, all entries are above.
    """
    ranks = (max(rank_from_top(q, num_nodes - 1), 1) for q in quantiles)
    return torch.stack([kth_largest(lists, min(rank, k)) for rank in ranks], dim=1)


def list_levels(lists: SparseRows, quantiles: Sequence[float], k: int, num_nodes: int) -> Tensor:
    """For how many quantiles each entry is above, uint8 [m]; for the lowest one all are."""
    reached = torch.ones(len(lists.row), dtype=torch.uint8, device=lists.row.device)
    if len(quantiles) > 1:
        for least in list_thresholds(lists, quantiles[1:], k, num_nodes).T:
            reached += lists.values >= least.clamp_min(TINY)[lists.row]
    return reached
