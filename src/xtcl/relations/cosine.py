"""Relations whose similarity is the cosine of two rows of a matrix of factors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.blocks import thread_map
from xtcl.relations.relation import Rows, SimilarityRows
from xtcl.relations.search import IndexSearch, Neighbors, Search, blocked_search
from xtcl.relations.sparse import kernels_run_on, product, ranges, row_entries, to_device
from xtcl.relations.topk import (
    Cut,
    Lists,
    Nearest,
    NearestRows,
    parts,
    ranges_numpy,
    topk_from_dense,
    topk_of_lists,
    topk_of_lists_numpy,
    uses_torch_search,
)
from xtcl.relations.view import TrainingView


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

        rows = view.once(
            "links of a kernel", lambda: kernel.LinkSegments.of(view.adjacency, view.device)
        )
        for _ in range(hops):
            values = kernel.sparse_product_kernel(rows, values)
        return values
    links = to_device(view.adjacency, view.device)
    for _ in range(hops):
        values = product(links, values)
    return values


TOGETHER = 512
"""Lists of cap that are put in order together."""


def nearest_by_factors(factors: Tensor, cut: Cut, index_past: int | None) -> Nearest:
    """Exact, or by an index where more than `index_past` rows are different."""
    if cut.full:
        return topk_from_dense(SimilarityRows(cosine_rows(factors), factors.device), cut)
    return FactorRows(factors, cut, index_past)


class FactorRows:
    """The largest cosines of a few rows at a time.

    A group beyond the cap + 1 best, equals in the order of their first nodes, holds none of the
    cap + 1 best nodes, since each of the others has a better one. So groups are searched for as
    nodes are, and one search serves all nodes of a group; the one more stands in for the node.
    Cost: O(b G D) for b rows and G different rows.

    `index_recall` is the share of the best that an index finds, None where all is searched.
    """

    def __init__(self, factors: Tensor, cut: Cut, index_past: int | None) -> None:
        self.cut, self.device = cut, factors.device
        self.groups = unique_rows(normalize_rows(factors))
        self.index_recall: float | None = None
        self.search: Search
        on_device = uses_torch_search(self.device)
        # An index searches on the CPU, where a GPU takes less time for all rows.
        if index_past is None or on_device or len(self.groups.rows) <= index_past:
            self.search = blocked_search(self.groups.rows, cut.cap + 1)
        else:
            self.search = index = IndexSearch(self.groups.rows, cut.cap + 1)
            self.index_recall = index.recall
        self.on_device: GroupLists | None = None
        if on_device:
            self.on_device = GroupLists(self.groups, self.search, cut)

    def __call__(self, nodes: Tensor) -> NearestRows:
        """The above sets of `nodes`."""
        if self.on_device is not None:
            return self.on_device(nodes)
        asked = nodes.cpu().numpy()
        which, back = np.unique(self.groups.group.cpu().numpy()[asked], return_inverse=True)
        values, places = (part.cpu().numpy() for part in self.search(torch.from_numpy(which)))

        def members(part: slice) -> sp.csr_array:
            return self._members(values[part], places[part])

        known = sp.csr_array(sp.vstack(thread_map(members, _slices(len(which))), format="csr"))

        def best(part: slice) -> sp.csr_array:
            return topk_of_lists_numpy(known[back[part]], asked[part], self.cut)

        lists = thread_map(best, _slices(len(asked)))
        return NearestRows.of(sp.csr_array(sp.vstack(lists, format="csr")), self.device)

    def _members(self, values: np.ndarray, places: np.ndarray) -> sp.csr_array:
        """The cap + 1 nodes most similar to groups, whose best are known, sparse [b, V]."""
        number = self.cut.cap + 1
        row, column = np.nonzero(values)
        value, group = values[row, column], places[row, column]
        start, everyone = self.groups.start.cpu().numpy(), self.groups.members.cpu().numpy()
        length = np.minimum(np.diff(start)[group], number)
        nodes = everyone[ranges_numpy(start[group], length)]
        total = np.bincount(row, weights=length, minlength=len(values)).astype(np.int64)
        lists = sp.csr_array(
            (np.repeat(value, length), nodes, np.concatenate([[0], np.cumsum(total)])),
            shape=(len(values), len(self.groups.group)),
        )
        return topk_of_lists_numpy(lists, np.full(len(values), -1), Cut(number, number))


def _slices(length: int) -> list[slice]:
    """All of it in parts of TOGETHER."""
    return [slice(first, first + TOGETHER) for first in range(0, max(length, 1), TOGETHER)]


class Groups(NamedTuple):
    """Groups in the order of their first nodes; the nodes of a group in their own order."""

    rows: Tensor  # float32 [G, D]
    group: Tensor  # int64 [V], of every node
    start: Tensor  # int64 [G + 1]
    members: Tensor  # int64 [V]


def unique_rows(rows: Tensor) -> Groups:
    """Group equal rows [V, D]. Cost: a sort of V rows, or of V numbers on a GPU."""
    kind = hash_rows(rows) if uses_torch_search(rows.device) else None
    if kind is None:
        kind = _kinds_by_bytes(rows)
    node = torch.arange(len(kind), device=kind.device)
    length = torch.bincount(kind)
    first = torch.full_like(length, len(kind)).scatter_reduce_(0, kind, node, "amin")
    order = torch.argsort(first)
    group = torch.argsort(order)[kind]
    start = torch.nn.functional.pad(length[order].cumsum(0), (1, 0))
    return Groups(rows[first[order]], group, start, torch.argsort(group, stable=True))


def _kinds_by_bytes(rows: Tensor) -> Tensor:
    """0, 1, ... for each row, the same for rows whose bytes are, by a sort of them."""
    table = np.ascontiguousarray(rows.cpu().numpy())
    whole = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    return torch.from_numpy(np.unique(whole, return_inverse=True)[1]).to(rows.device)


# Which rows of a matrix are equal, by one number for each.
#
# Numbers of 64 bits that depend on all of a row, well mixed, differ where rows do but for a chance
# of
# a few in a million with a million rows. So they are sorted in place of the rows, and then every
# row
# is compared with one of the same number.
#
# Citation of the mixing: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
# OOPSLA 2014.


def hash_rows(rows: Tensor) -> Tensor | None:
    """0, 1, ... for each row of floats, the same for rows whose bits are, int64 [V].

    None where two different rows have the same number. Cost: O(V D) and a sort of V numbers.
    """
    bits = rows.view(torch.int32)
    number = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    for column in bits.T:
        number = splitmix64(number + column)
    kinds, kind = torch.unique(number, return_inverse=True)
    some = torch.empty_like(kinds)
    some[kind] = torch.arange(len(rows), device=rows.device)  # whoever of the kind comes last
    return kind if torch.equal(bits, bits[some[kind]]) else None


def splitmix64(number: Tensor) -> Tensor:
    """Another number for each, all of whose bits hang on all of the bits of the first."""
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


class GroupLists:
    """What `nearest.factors` does after its search. O(b cap) entries, or O(b cap^2) in parts."""

    def __init__(self, groups: Groups, search: Search, cut: Cut) -> None:
        self.groups, self.search, self.cut = groups, search, cut

    def __call__(self, nodes: Tensor) -> NearestRows:
        """The above sets of `nodes`."""
        asked = nodes.to(self.groups.group.device)
        which, back = torch.unique(self.groups.group[asked], return_inverse=True)
        known = self._members(self.search(which))
        row, entry = row_entries(known.start, back)
        shape = (len(asked), len(self.groups.group))
        lists = Lists(row * shape[1] + known.nodes[entry], known.similarities[entry], shape)
        return topk_of_lists(lists, asked, self.cut)

    def _members(self, found: Neighbors) -> NearestRows:
        """The cap + 1 nodes most similar to groups, whose best are known."""
        number = self.cut.cap + 1
        values, places = found
        size = self.groups.start.diff()[places].clamp_max(number)
        length = torch.where(values > 0, size, 0)
        every = torch.arange(len(values), device=values.device)

        def best(rows: Tensor) -> NearestRows:
            which, entry = ranges(self.groups.start[places[rows]].flatten(), length[rows].flatten())
            shape = (len(rows), len(self.groups.group))
            key = which // values.shape[1] * shape[1] + self.groups.members[entry]
            lists = Lists.sorted(key, values[rows].flatten()[which], shape)
            return topk_of_lists(lists, torch.full_like(rows, -1), Cut(number, number))

        return NearestRows.joined([best(rows) for rows in parts(every, length.sum(dim=1))])
