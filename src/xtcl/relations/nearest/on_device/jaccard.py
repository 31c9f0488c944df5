"""Jaccard: only nodes with a common neighbour are alike, and they are two steps away."""

from __future__ import annotations

from torch import Tensor

from xtcl.relations.common_neighbours import neighbourhood
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.jaccard import paths_of_two
from xtcl.relations.nearest.on_device.links import Links
from xtcl.relations.nearest.on_device.lists import Lists
from xtcl.relations.nearest.on_device.parts import in_parts
from xtcl.relations.nearest.on_device.paths import ends_of_two
from xtcl.relations.nearest.rows import Nearest
from xtcl.relations.view import TrainingView


def nearest_by_jaccard(relation: Jaccard, view: TrainingView, cut: Cut) -> Nearest:
    """Exact. Cost: a sort of the paths of two steps, the sum of d_w over N_u for a row."""
    near = neighbourhood(view.adjacency, relation.hops)
    links = Links.of(near, view.device)
    size = links.degree.float()

    def explore(nodes: Tensor) -> Lists:
        shared = ends_of_two(links, nodes)
        sizes = size[shared.node] * size[nodes][shared.row]
        return Lists(shared.key, shared.value / sizes, shared.shape)

    return in_parts(explore, paths_of_two(near), cut, view)
