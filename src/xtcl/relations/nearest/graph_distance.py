r"""Graph distance: breadth-first search until the ball is full.

Nodes at the same distance are taken in their order, so of each node's neighbours only the first
cap + 1 can ever be chosen: with n nodes in the ball, u itself not counted, at most n + 1 of them
are there already, and the cap - n first of the others do. Where fewer than cap - n new nodes come
out, no list was cut short. So hubs cost no more than cap + 1 steps.

The order of a row does not hang on D, and on random graphs finding D takes a search from every
other node. So where the cap leaves something out, D is a bound after a few searches.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.parts import in_parts, ranges
from xtcl.relations.nearest.rows import Nearest
from xtcl.relations.view import TrainingView

SEARCHES = 16
"""Searches for D, unless the relation says how many."""


def similarity_of_steps(relation: GraphDistance, view: TrainingView, cut: Cut) -> Tensor:
    """That of nodes 0, 1, ..., D steps away: float32 [D + 1]."""
    if relation.searches is None and cut.cap < view.num_nodes - 1:
        relation = GraphDistance(searches=SEARCHES)
    diameter = relation.diameter(view)
    steps = torch.arange(diameter + 1, 0, -1, dtype=torch.float32, device=view.device)
    return steps / diameter


def nearest_by_distance(relation: GraphDistance, view: TrainingView, cut: Cut) -> Nearest:
    """Exact. Cost: O(min(cap^2, E)) for a row, whatever the degrees."""
    num_nodes = view.num_nodes
    similarity = similarity_of_steps(relation, view, cut).cpu().numpy()
    links = sp.csr_array(view.adjacency).sorted_indices()
    length = np.minimum(np.diff(links.indptr), cut.cap + 1)

    def explore(nodes: np.ndarray) -> sp.csr_array:
        frontier = np.arange(len(nodes)) * num_nodes + nodes  # row * V + node
        seen, distance = frontier, np.zeros(len(nodes), dtype=np.int64)
        for step in range(1, len(similarity)):
            row, node = np.divmod(frontier, num_nodes)
            neighbours = links.indices[ranges(links.indptr[node], length[node])]
            reached = _distinct(np.repeat(row, length[node]) * num_nodes + neighbours)
            place = np.searchsorted(seen, reached)
            new = reached[seen[np.minimum(place, len(seen) - 1)] != reached]
            if not len(new):
                break
            place = np.searchsorted(seen, new)
            seen, distance = np.insert(seen, place, new), np.insert(distance, place, step)
            size = np.bincount(seen // num_nodes, minlength=len(nodes)) - 1
            frontier = new[size[new // num_nodes] < cut.cap]
        row, node = np.divmod(seen, num_nodes)
        start = np.searchsorted(row, np.arange(len(nodes) + 1))
        return sp.csr_array((similarity[distance], node, start), shape=(len(nodes), num_nodes))

    return in_parts(explore, np.full(num_nodes, most_steps(view, cut)), cut, view)


def most_steps(view: TrainingView, cut: Cut) -> int:
    """Neighbours that one search looks at together, at most."""
    return min(cut.cap * (cut.cap + 1), view.adjacency.nnz)


def _distinct(keys: np.ndarray) -> np.ndarray:
    keys.sort()
    return keys[np.diff(keys, prepend=-1) > 0]
