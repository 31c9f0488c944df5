"""Relations of factors: the largest cosines, searched for among different rows only."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.factors import cosine_rows, unit_rows
from xtcl.relations.nearest.cut import Cut, best_of_lists
from xtcl.relations.nearest.dense import of_whole_rows
from xtcl.relations.nearest.groups import grouped
from xtcl.relations.nearest.index import IndexSearch
from xtcl.relations.nearest.on_device.groups import GroupLists
from xtcl.relations.nearest.on_device.use import explores_on
from xtcl.relations.nearest.parts import ranges
from xtcl.relations.nearest.rows import Nearest, NearestRows
from xtcl.relations.nearest.search import Search, blocked_search
from xtcl.relations.relation import SimilarityRows
from xtcl.relations.side_by_side import side_by_side

TOGETHER = 512
"""Lists of cap that are put in order together."""


def nearest_by_factors(factors: Tensor, cut: Cut, index_past: int | None) -> Nearest:
    """Exact, or by an index where more than `index_past` rows are different."""
    if cut.full:
        return of_whole_rows(SimilarityRows(cosine_rows(factors), factors.device), cut)
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
        self.groups = grouped(unit_rows(factors))
        self.index_recall: float | None = None
        self.search: Search
        on_device = explores_on(self.device)
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

        known = sp.csr_array(sp.vstack(side_by_side(members, _slices(len(which))), format="csr"))

        def best(part: slice) -> sp.csr_array:
            return best_of_lists(known[back[part]], asked[part], self.cut)

        lists = side_by_side(best, _slices(len(asked)))
        return NearestRows.of(sp.csr_array(sp.vstack(lists, format="csr")), self.device)

    def _members(self, values: np.ndarray, places: np.ndarray) -> sp.csr_array:
        """The cap + 1 nodes most similar to groups, whose best are known, sparse [b, V]."""
        number = self.cut.cap + 1
        row, column = np.nonzero(values)
        value, group = values[row, column], places[row, column]
        start, everyone = self.groups.start.cpu().numpy(), self.groups.members.cpu().numpy()
        length = np.minimum(np.diff(start)[group], number)
        nodes = everyone[ranges(start[group], length)]
        total = np.bincount(row, weights=length, minlength=len(values)).astype(np.int64)
        lists = sp.csr_array(
            (np.repeat(value, length), nodes, np.concatenate([[0], np.cumsum(total)])),
            shape=(len(values), len(self.groups.group)),
        )
        return best_of_lists(lists, np.full(len(values), -1), Cut(number, number))


def _slices(length: int) -> list[slice]:
    """All of it in parts of TOGETHER."""
    return [slice(first, first + TOGETHER) for first in range(0, max(length, 1), TOGETHER)]
