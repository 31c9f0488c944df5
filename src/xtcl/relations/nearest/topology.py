r"""Topology: nodes that share neighbours, merged with the best of those that share none.

The similarity of two nodes that share nothing depends on their degrees only. So all nodes of one
degree have the same order of the others; the first of it that share nothing with u, and are not
u, are the best such. No more than cap + (number that share) + 1 need to be looked at, and none
where the cap best that share are larger than the first of the order.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from xtcl.relations.nearest.cut import Cut, best_of_lists, floors, rows_of
from xtcl.relations.nearest.degree_order import DegreeOrder
from xtcl.relations.nearest.jaccard import paths_of_two
from xtcl.relations.nearest.parts import in_parts
from xtcl.relations.nearest.rows import Nearest
from xtcl.relations.topology import Topology, mutual_information
from xtcl.relations.view import TrainingView

FEW = 2**15
"""Pairs whose logarithms are taken together: as many as the cache holds."""


def nearest_by_topology(relation: Topology, view: TrainingView, cut: Cut) -> Nearest:
    """Exact. Cost: the paths of two steps, and O(K cap) for K different degrees in a part."""
    links, count = sp.csr_array(view.adjacency), view.num_nodes
    degrees, kind, disjoint = (part.cpu() for part in relation.without_overlap(view))
    order = DegreeOrder(kind.numpy(), disjoint.numpy())
    most = disjoint.numpy().max(axis=1)

    def sharing(nodes: np.ndarray) -> sp.csr_array:
        shared = sp.csr_array(links[nodes] @ links)
        row, overlap = rows_of(shared), torch.from_numpy(shared.data)
        for few in (slice(a, a + FEW) for a in range(0, shared.nnz, FEW)):
            u, v = kind[nodes[row[few]]], kind[shared.indices[few]]
            both = overlap[few].double()
            overlap[few] = mutual_information(degrees[u], degrees[v], both, count).float()
        return shared

    def explore(nodes: np.ndarray) -> sp.csr_array:
        shared = sharing(nodes)
        best = best_of_lists(shared, nodes, Cut(cut.cap, cut.cap))
        own = kind.numpy()[nodes]
        wanted = np.flatnonzero(floors(best, cut.cap) <= most[own])
        length = np.zeros(len(nodes), dtype=np.int64)
        length[wanted] = np.minimum(cut.cap + 1 + np.diff(shared.indptr)[wanted], count)
        others = order.first(own, length)
        shared.data[:] = 1.0  # as a mask; a pair that shares neighbours may have a similarity of 0
        return sp.csr_array(best + (others - others.multiply(shared)))

    return in_parts(explore, paths_of_two(links) + cut.cap + 1, cut, view)
