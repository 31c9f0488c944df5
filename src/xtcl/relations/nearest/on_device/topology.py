"""Topology: nodes that share neighbours, merged with the best of those that share none.

How few of the latter need to be looked at says `nearest.topology`. Their order for each of the
degrees is short and made beforehand, as NumPy does it; rows are put together on the device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.degree_order import DegreeOrder
from xtcl.relations.nearest.jaccard import paths_of_two
from xtcl.relations.nearest.on_device.links import Links
from xtcl.relations.nearest.on_device.lists import Lists, best_of_lists, floors
from xtcl.relations.nearest.on_device.parts import in_parts
from xtcl.relations.nearest.on_device.paths import ends_of_two
from xtcl.relations.nearest.rows import Nearest
from xtcl.relations.sparse import is_among, ranges
from xtcl.relations.topology import Topology, mutual_information
from xtcl.relations.view import TrainingView


def nearest_by_topology(relation: Topology, view: TrainingView, cut: Cut) -> Nearest:
    """Exact. Cost: a sort of the paths of two steps, and O(K cap) for K degrees in a part."""
    links, count = Links.among(view), view.num_nodes
    degrees, kind, disjoint = relation.without_overlap(view)
    order = DegreeOrder(kind.cpu().numpy(), disjoint.cpu().numpy())
    most = disjoint.amax(dim=1)

    def first(own: Tensor, length: Tensor) -> Lists:
        """For nodes of the kinds `own` the `length` most similar if they share nothing."""
        longest = torch.zeros(len(degrees), dtype=torch.int64, device=own.device)
        longest.scatter_reduce_(0, own, length, "amax")
        known = order.orders(longest.cpu().numpy())
        begin, values, nodes = (torch.from_numpy(part).to(own.device) for part in known)
        row, entry = ranges(begin[own], length)
        return Lists.sorted(row * count + nodes[entry], values[entry], (len(own), count))

    def explore(nodes: Tensor) -> Lists:
        shared, own = ends_of_two(links, nodes), kind[nodes]
        u, v = degrees[own][shared.row], degrees[kind[shared.node]]
        alike = mutual_information(u, v, shared.value.double(), count).float()
        sharing = Lists(shared.key, alike, shared.shape)
        best = Lists.of(best_of_lists(sharing, nodes, Cut(cut.cap, cut.cap)), count)
        enough = (cut.cap + 1 + shared.start.diff()).clamp_max(count)
        others = first(own, torch.where(floors(best, cut.cap) <= most[own], enough, 0))
        # A pair that shares neighbours is not one of the others, even if its similarity is 0.
        value = torch.where(is_among(others.key, shared.key), 0.0, others.value)
        key = torch.cat([best.key, others.key])
        return Lists.sorted(key, torch.cat([best.value, value]), shared.shape)

    return in_parts(explore, paths_of_two(view.adjacency) + cut.cap + 1, cut, view)
