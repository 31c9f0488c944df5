"""Topology: nodes that share neighbours, merged with the best of those that share none.

How few of the latter need to be looked at says `nearest.topology`. Their order for each of the
degrees is short and made beforehand, as NumPy does it; rows are put together on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.common_neighbours import Links, common_neighbours, ends_of_two
from xtcl.relations.jaccard import paths_of_two
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.sparse import is_among, kernels_run_on, ranges
from xtcl.relations.topk import (
    Cut,
    Lists,
    Nearest,
    in_parts,
    in_parts_numpy,
    kth_largest,
    kth_largest_numpy,
    ranges_numpy,
    rows_of,
    topk_of_lists,
    topk_of_lists_numpy,
)
from xtcl.relations.view import LINKS, TrainingView


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
        best = Lists.of(topk_of_lists(sharing, nodes, Cut(cut.cap, cut.cap)), count)
        enough = (cut.cap + 1 + shared.start.diff()).clamp_max(count)
        others = first(own, torch.where(kth_largest(best, cut.cap) <= most[own], enough, 0))
        # A pair that shares neighbours is not one of the others, even if its similarity is 0.
        value = torch.where(is_among(others.key, shared.key), 0.0, others.value)
        key = torch.cat([best.key, others.key])
        return Lists.sorted(key, torch.cat([best.value, value]), shared.shape)

    return in_parts(explore, paths_of_two(view.adjacency) + cut.cap + 1, cut, view)


# Topology: nodes that share neighbours, merged with the best of those that share none.
#
# The similarity of two nodes that share nothing depends on their degrees only. So all nodes of one
# degree have the same order of the others; the first of it that share nothing with u, and are not
# u, are the best such. No more than cap + (number that share) + 1 need to be looked at, and none
# where the cap best that share are larger than the first of the order.


FEW = 2**15
"""Pairs whose logarithms are taken together: as many as the cache holds."""


def nearest_by_topology_numpy(relation: Topology, view: TrainingView, cut: Cut) -> Nearest:
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
        best = topk_of_lists_numpy(shared, nodes, Cut(cut.cap, cut.cap))
        own = kind.numpy()[nodes]
        wanted = np.flatnonzero(kth_largest_numpy(best, cut.cap) <= most[own])
        length = np.zeros(len(nodes), dtype=np.int64)
        length[wanted] = np.minimum(cut.cap + 1 + np.diff(shared.indptr)[wanted], count)
        others = order.first(own, length)
        shared.data[:] = 1.0  # as a mask; a pair that shares neighbours may have a similarity of 0
        return sp.csr_array(best + (others - others.multiply(shared)))

    return in_parts_numpy(explore, paths_of_two(links) + cut.cap + 1, cut, view)


def mutual_information(degree_u: Tensor, degree_v: Tensor, shared: Tensor, count: int) -> Tensor:
    """I(S_u; S_v) in nats of two 0/1 vectors with given sums and overlap, in double precision."""
    p_u, p_v, both = degree_u / count, degree_v / count, shared / count
    total = torch.zeros_like(p_u + p_v + both)
    for joint, left, right in (
        (both, p_u, p_v),
        (p_u - both, p_u, 1 - p_v),
        (p_v - both, 1 - p_u, p_v),
        (1 - p_u - p_v + both, 1 - p_u, 1 - p_v),
    ):
        # A cell smaller than one node in `count` is empty but for rounding: 0 log 0 = 0.
        filled = joint > 0.5 / count
        ratio = torch.where(filled, joint / (left * right), 1.0)
        total += torch.where(filled, joint, 0.0) * torch.log(ratio)
    # Rounding would leave 1e-17 where there is nothing, and s > 0 decides in sparse rows.
    independent = shared * count == degree_u * degree_v
    return torch.where(independent, 0.0, total.clamp_min(0.0))


@dataclass(frozen=True)
class Topology(Relation):
    r"""How much knowing one node's neighbours tells about the other's.

    Row u of A is read as V draws of a 0/1 variable :math:`S_u`:

    .. math:: s(u, v) = I(S_u; S_v) = \sum_{a, b \in \{0, 1\}} p_{ab} \log
              \frac{p_{ab}}{p_u(a) p_v(b)}

    with :math:`p_u(1) = d_u / V` and :math:`p_{11} = |N_u \cap N_v| / V`.

    Range: [0, log 2]. Symmetric. Two nodes that share nothing still get a little: that their
    neighbours exclude each other is information too.
    Cost: O(E) memory, O(b (E + V)) for b rows; the logarithms of pairs that share nothing depend on
    two degrees only and come from a table.
    Isolated node: 0 to every other node.
    Citation: Dong, Wu, Luo, Ge and Wang, "Node Representation Learning in Graph via
    Node-to-Neighbourhood Mutual Information Maximization", CVPR 2022.

    >>> from xtcl.relations.relation import path_of_four, rows
    >>> rows(Topology(), path_of_four(), [0])
    [[0.562, 0.216, 0.216, 0.085]]
    """

    name: ClassVar[str] = "topology"
    title: ClassVar[str] = "Topology Sim."
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    row_by_row: ClassVar[bool] = True

    def without_overlap(self, view: TrainingView) -> tuple[Tensor, Tensor, Tensor]:
        """The degrees that occur [K], which each node has [V], and s of nodes that share nothing.

        Such an s depends on the two degrees only: float32 [K, K].
        """
        degrees, which = np.unique(np.diff(view.adjacency.indptr), return_inverse=True)
        kinds = torch.tensor(degrees, dtype=torch.float64, device=view.device)
        none = torch.zeros_like(kinds)
        disjoint = mutual_information(kinds[:, None], kinds, none, view.num_nodes).float()
        return kinds, torch.tensor(which, device=view.device), disjoint

    def prepare(self, view: TrainingView) -> Rows:
        """Table of the values without overlap; pairs that share neighbours are put in on top."""
        count = view.num_nodes
        shared = common_neighbours(view.adjacency, view.device)
        kinds, kind, disjoint = self.without_overlap(view)

        if kernels_run_on(view.device):
            from xtcl.relations.triton_kernels import inform_

            total = torch.tensor(count, dtype=torch.float64, device=view.device)

            def inform(nodes: Tensor) -> Tensor:
                found = shared(nodes)
                inform_(found, nodes, kind, kinds, disjoint, total)
                return found

            return inform

        def compute(nodes: Tensor) -> Tensor:
            overlap = shared(nodes)
            similarity = disjoint[kind[nodes]][:, kind]
            row, column = torch.nonzero(overlap, as_tuple=True)
            similarity[row, column] = mutual_information(
                kinds[kind[nodes[row]]],
                kinds[kind[column]],
                overlap[row, column].double(),
                count,
            ).float()
            return similarity

        return compute


class DegreeOrder:
    """Node v is of kind `kind[v]`, and `table` [K, K] is the similarity of two kinds."""

    def __init__(self, kind: np.ndarray, table: np.ndarray) -> None:
        self.table = table
        self.members = np.argsort(kind, kind="stable")
        self.size = np.bincount(kind, minlength=len(table))
        self.start = np.cumsum(self.size) - self.size

    def first(self, kinds: np.ndarray, length: np.ndarray) -> sp.csr_array:
        """For a node of each kind its `length` most similar nodes, equals in their order."""
        length = np.minimum(length, len(self.members))
        longest = np.zeros(len(self.table), dtype=np.int64)
        np.maximum.at(longest, kinds, length)
        begin, values, nodes = self.orders(longest)
        entry = ranges_numpy(begin[kinds], length)
        start = np.concatenate([[0], np.cumsum(length)])
        shape = (len(kinds), len(self.members))
        return sp.csr_array((values[entry], nodes[entry], start), shape=shape)

    def orders(self, length: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first `length` [K] nodes for every kind, one kind after the other.

        Where those of a kind begin [K], similarities and nodes.
        """
        values, nodes = [np.zeros(0, np.float32)], [np.zeros(0, np.int64)]
        for kind in np.flatnonzero(length).tolist():
            value, node = self._order(kind, int(length[kind]))
            values.append(value)
            nodes.append(node)
        return np.cumsum(length) - length, np.concatenate(values), np.concatenate(nodes)

    def _order(self, kind: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        value = self.table[kind]
        descending = np.argsort(-value, kind="stable")
        reached = np.searchsorted(np.cumsum(self.size[descending]), length)
        chosen = np.flatnonzero(value >= value[descending[reached]])
        taken = np.minimum(self.size[chosen], length)
        nodes = self.members[ranges_numpy(self.start[chosen], taken)]
        values = np.repeat(value[chosen], taken)
        order = np.lexsort((nodes, -values))[:length]
        return values[order], nodes[order]
