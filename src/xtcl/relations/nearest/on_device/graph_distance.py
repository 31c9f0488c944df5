"""Graph distance: breadth-first search from all nodes of a part, until each ball is full.

Why only the first cap + 1 neighbours of a node are looked at says `nearest.graph_distance`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.graph_distance import most_steps, similarity_of_steps
from xtcl.relations.nearest.on_device.links import Links
from xtcl.relations.nearest.on_device.lists import Lists
from xtcl.relations.nearest.on_device.parts import in_parts
from xtcl.relations.nearest.rows import Nearest
from xtcl.relations.sparse import is_among, ranges
from xtcl.relations.view import TrainingView


def nearest_by_distance(relation: GraphDistance, view: TrainingView, cut: Cut) -> Nearest:
    """Exact. Cost: a sort of O(min(cap^2, E)) entries for a row, whatever the degrees."""
    num_nodes = view.num_nodes
    similarity = similarity_of_steps(relation, view, cut)
    links = Links.among(view)
    length = links.degree.clamp_max(cut.cap + 1)

    def explore(nodes: Tensor) -> Lists:
        frontier = torch.arange(len(nodes), device=nodes.device) * num_nodes + nodes
        shape = (len(nodes), num_nodes)
        ball = Lists(frontier, torch.zeros_like(frontier), shape)  # with the distance of each
        for step in range(1, len(similarity)):
            node = frontier % num_nodes
            whose, entry = ranges(links.start[node], length[node])
            reached = torch.unique((frontier - node)[whose] + links.end[entry])
            new = reached[~is_among(reached, ball.key)]
            if not len(new):
                break
            distance = torch.cat([ball.value, torch.full_like(new, step)])
            ball = Lists.sorted(torch.cat([ball.key, new]), distance, shape)
            size = ball.start.diff() - 1
            frontier = new[size[new // num_nodes] < cut.cap]
        return Lists(ball.key, similarity[ball.value], shape)

    return in_parts(explore, np.full(num_nodes, most_steps(view, cut)), cut, view)
