"""Relations whose similarity is the cosine of two rows of a matrix of factors.

Over all pairs (`cosine_rows`, `topk_by_factors`), or over linked pairs only (`linked_cosines`), as
Section 3.3 of the paper proposes for large graphs. `CosineRelation` chooses by its `linked_only`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.relation import PairFunction, Relation, Rows, SimilarityRows
from xtcl.relations.search import IndexSearch, Neighbors, Search, blocked_search
from xtcl.relations.sparse import (
    SparseRows,
    dense_rows,
    entries_of_pairs,
    kernels_run_on,
    product,
    ranges,
    row_entries,
    to_device,
)
from xtcl.relations.topk import (
    TopK,
    TopKSearch,
    map_parts,
    split_by,
    topk_from_dense,
    topk_of_lists,
    topk_of_matrix,
)
from xtcl.relations.view import LINKS, TrainingView

PAIRS_PER_PRODUCT = 2**14
"""Pairs whose factors are multiplied at a time."""


@dataclass(frozen=True)
class CosineRelation(Relation):
    r"""A relation that compares two nodes by the cosine of their `raw_factors`.

    .. math:: s(u, v) = \max(\cos(f_u, f_v), 0)

    With `linked_only` this holds for linked nodes, and s(u, v) = 0 for all others. That is the
    approximation of Section 3.3 of the paper: O(E D) time and O(V D + E) memory for all rows, where
    all pairs take O(V^2 D) time.
    """

    linked_only: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.linked_only:  # of this relation, not of the class
            object.__setattr__(self, "reads", self.reads | {LINKS})

    @abstractmethod
    def raw_factors(self, view: TrainingView, top: TopK | None = None) -> Tensor:
        """Factors [V, D], whose cosines are the similarities: of linked pairs with `linked_only`.

        `top` is given in top-k mode, where they may be made from short lists, too.
        """

    def factors(self, view: TrainingView, top: TopK | None = None) -> Tensor | None:
        """The `raw_factors`; None with `linked_only`, where only some pairs have their cosines."""
        return None if self.linked_only else self.raw_factors(view, top)

    @property
    def may_use_index(self) -> bool:
        """Not with `linked_only`: links are searched one by one."""
        return super().may_use_index and not self.linked_only

    def prepare(self, view: TrainingView) -> Rows:
        """Cosines of the factors, or rows of the matrix of linked pairs."""
        factors = self.factors(view)
        if factors is not None:
            return cosine_rows(factors)
        matrix = to_device(self.linked_similarities(view), view.device)
        return lambda nodes: dense_rows(matrix, nodes)

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch:
        """The largest cosines of the factors, or the best links of each node.

        An index of factors that depend on labels serves one view, so it is only built for many
        rows of it.
        """
        factors = self.factors(view, top)
        if factors is None:
            return topk_of_matrix(self.linked_similarities(view), top, view)
        return topk_by_factors(factors, top.for_one_view() if self.reads_labels else top)

    def of_pairs(self, view: TrainingView) -> PairFunction | None:
        """Linked pairs are looked up; without `linked_only` cosines follow from the factors."""
        if not self.linked_only:
            return None
        return entries_of_pairs(self.linked_similarities(view), view.device)

    def linked_similarities(self, view: TrainingView) -> sp.csr_array:
        """s(u, v) of all linked pairs, a sparse matrix [V, V]; cached if folds share it."""

        def compute() -> sp.csr_array:
            return linked_cosines(self.raw_factors(view), view.adjacency)

        if not self.shared_by_folds:
            return compute()
        return view.cached(("linked pairs", self), compute, self.reads)


def linked_cosines(factors: Tensor, adjacency: sp.csr_array) -> sp.csr_array:
    """max(cos(f_u, f_v), 0) of all linked pairs, in the places of `adjacency`.

    The factors of both ends are gathered, some pairs at a time. Cost: O(E D), O(V D + E) memory.
    """
    rows = normalize_rows(factors)
    links = adjacency if adjacency.has_sorted_indices else adjacency.sorted_indices()
    u = np.repeat(np.arange(links.shape[0]), np.diff(links.indptr))
    ends = (torch.from_numpy(end.astype(np.int64)).to(rows.device) for end in (u, links.indices))
    values = cosines_of_pairs(rows, *ends).cpu().numpy()
    return sp.csr_array((values, links.indices, links.indptr), shape=links.shape)


def cosines_of_pairs(rows: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Cosines of normalised `rows` u [m] and v [m], at least 0: float32 [m]. Cost: O(m D)."""
    parts = zip(torch.split(u, PAIRS_PER_PRODUCT), torch.split(v, PAIRS_PER_PRODUCT), strict=True)
    return torch.cat([(rows[a] * rows[b]).sum(dim=1).clamp_(0.0, 1.0) for a, b in parts])


def normalize_rows(factors: Tensor) -> Tensor:
    """Rows whose inner products are cosines; zero rows stay zero."""
    rows = torch.nn.functional.normalize(factors)
    # Zero columns change nothing, but without them a product of few columns with an odd number of
    # factors rounds differently at different places of a tile (seen with MKL for V < 12).
    return torch.nn.functional.pad(rows, (0, -rows.shape[1] % 16 or 16 * (rows.shape[1] == 0)))


def cosine_rows(factors: Tensor) -> Rows:
    """cos(f_u, f_v) for all v, with negative values cut to 0 and zero rows similar to nothing.

    Cost: O(V D) memory for the factors, O(b V D) per block of b rows.
    """
    rows = normalize_rows(factors)

    def compute(nodes: Tensor) -> Tensor:
        return (rows[nodes] @ rows.T).clamp_(0.0, 1.0)

    return compute


def propagate(view: TrainingView, values: Tensor, hops: int) -> Tensor:
    """A^k M: `values` [V, D] summed over all walks of length `hops`."""
    if kernels_run_on(view.device):
        from xtcl.relations import triton_kernels as kernel

        rows = view.cached(
            "links of a kernel", lambda: kernel.LinkSegments.of(view.adjacency, view.device)
        )
        for _ in range(hops):
            values = kernel.sparse_product_kernel(rows, values)
        return values
    links = to_device(view.adjacency, view.device)
    for _ in range(hops):
        values = product(links, values)
    return values


def topk_by_factors(factors: Tensor, top: TopK) -> TopKSearch:
    """Exact, or by an index where more than `top.index_threshold` rows are different."""
    if top.full:
        return topk_from_dense(SimilarityRows(cosine_rows(factors), factors.device), top)
    return FactorSearch(factors, top)


class FactorSearch:
    """The largest cosines of a few rows at a time.

    Of all groups of equal rows, in the order of their first nodes, those beyond the k + 1 best hold
    none of the k + 1 best nodes, since each better group has a better node. So k + 1 groups are
    searched, once for all nodes of a group; the extra one replaces the node itself. Cost: O(b G D)
    for b rows and G different rows, and O(b k) entries, or O(b k^2) in parts.

    `index_recall` is the share of the best that an index finds, None where all is searched.
    """

    def __init__(self, factors: Tensor, top: TopK) -> None:
        self.top = top
        self.groups = group_rows(normalize_rows(factors))
        self.index_recall: float | None = None
        self._search: Search
        rows, threshold = self.groups.rows, top.index_threshold
        # An index is searched on the CPU; a GPU takes less time for all rows.
        if threshold is None or not factors.is_cpu or len(rows) <= threshold:
            self._search = blocked_search(rows, top.k + 1)
        else:
            self._search = index = IndexSearch(rows, top.k + 1)
            self.index_recall = index.recall

    def __call__(self, nodes: Tensor) -> SparseRows:
        """The best of `nodes`."""
        nodes = nodes.to(self.groups.group.device)
        which, back = torch.unique(self.groups.group[nodes], return_inverse=True)
        known = self._members(self._search(which))
        start, similarity = known.start, known.values
        place = torch.arange(len(nodes), device=nodes.device)

        def best(part: Tensor) -> SparseRows:
            row, entry = row_entries(start, back[part])
            lists = SparseRows(
                row,
                known.node.index_select(0, entry),
                len(part),
                similarity.index_select(0, entry),
            )
            return topk_of_lists(lists, nodes[part], self.top)

        return SparseRows.joined(map_parts(best, split_by(place, start.diff()[back])))

    def _members(self, found: Neighbors) -> SparseRows:
        """The k + 1 nodes most similar to groups, whose best groups are known."""
        number = self.top.k + 1
        values, places = found
        size = self.groups.start.diff()[places].clamp_max(number)
        length = torch.where(values > 0, size, 0)
        num_nodes = len(self.groups.group)

        def best(rows: Tensor) -> SparseRows:
            which, entry = ranges(self.groups.start[places[rows]].flatten(), length[rows].flatten())
            key = which // values.shape[1] * num_nodes + self.groups.members.index_select(0, entry)
            value = values[rows].flatten().index_select(0, which)
            lists = SparseRows.from_unsorted_keys(key, value, len(rows), num_nodes)
            return topk_of_lists(lists, torch.full_like(rows, -1), TopK(number, number))

        every = torch.arange(len(values), device=values.device)
        return SparseRows.joined(map_parts(best, split_by(every, length.sum(dim=1))))


class Groups(NamedTuple):
    """Groups of equal rows, in the order of their first nodes."""

    rows: Tensor  # float32 [G, D]
    group: Tensor  # int64 [V], of every node
    start: Tensor  # int64 [G + 1]
    members: Tensor  # int64 [V], the nodes of each group, ascending


def group_rows(rows: Tensor) -> Groups:
    """Group equal rows [V, D]. Cost: O(V D) and a sort of V numbers."""
    kind = hash_rows(rows)
    if kind is None:  # a sort of the rows themselves
        bits = rows.contiguous().view(torch.int32)
        kind = torch.unique(bits, dim=0, return_inverse=True)[1]
    node = torch.arange(len(kind), device=kind.device)
    length = torch.bincount(kind)
    first = torch.full_like(length, len(kind)).scatter_reduce_(0, kind, node, "amin")
    order = torch.argsort(first)
    group = torch.argsort(order)[kind]
    start = torch.nn.functional.pad(length[order].cumsum(0), (1, 0))
    return Groups(rows[first[order]], group, start, torch.argsort(group, stable=True))


def hash_rows(rows: Tensor) -> Tensor | None:
    """0, 1, ... for each row of floats, the same for rows with the same bits, int64 [V].

    Numbers of 64 bits that depend on all of a row, well mixed, differ where rows do, except for a
    chance of a few in a million with a million rows. So they are sorted in place of the rows, and
    then every row is compared with one of the same number. None where two different rows have the
    same number. Cost: O(V D) and a sort of V numbers.
    """
    bits = rows.view(torch.int32)
    number = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for column in bits.T:
        number = splitmix64(number + column)
    kinds, kind = torch.unique(number, return_inverse=True)
    some = torch.empty_like(kinds)
    some[kind] = torch.arange(len(rows), device=rows.device)  # any of the kind
    return kind if torch.equal(bits, bits[some[kind]]) else None


def splitmix64(number: Tensor) -> Tensor:
    """Another number for each, all of whose bits depend on all bits of the first.

    Citation: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
    """
    number = number + _signed(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        number = (number ^ _shifted(number, shift)) * _signed(factor)
    return number ^ _shifted(number, 31)


def _shifted(number: Tensor, by: int) -> Tensor:
    """To the right, with zeros from the left whatever the sign."""
    return (number >> by) & ((1 << (64 - by)) - 1)


def _signed(number: int) -> int:
    """The whole number with the same 64 bits that torch can hold."""
    return number - 2**64 if number >= 2**63 else number
