"""Relations of factors: nodes from the groups of equal rows that a search has found."""

from __future__ import annotations

import torch
from torch import Tensor

from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.groups import Groups
from xtcl.relations.nearest.on_device.lists import Lists, best_of_lists
from xtcl.relations.nearest.on_device.parts import parts
from xtcl.relations.nearest.rows import NearestRows
from xtcl.relations.nearest.search import Found, Search
from xtcl.relations.sparse import ranges, row_entries


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
        return best_of_lists(lists, asked, self.cut)

    def _members(self, found: Found) -> NearestRows:
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
            return best_of_lists(lists, torch.full_like(rows, -1), Cut(number, number))

        return NearestRows.joined([best(rows) for rows in parts(every, length.sum(dim=1))])
