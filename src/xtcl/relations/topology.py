"""Topology similarity: mutual information of two neighbourhoods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.common_neighbours import (
    SharedNeighbours,
    common_neighbour_lists,
    common_neighbours,
    count_two_step_paths,
)
from xtcl.relations.relation import PairFunction, Relation, Rows
from xtcl.relations.sparse import SparseRows, is_among, kernels_run_on, ranges, sorted_keys
from xtcl.relations.topk import TopK, TopKSearch, topk_in_parts, topk_of_lists
from xtcl.relations.view import LINKS, TrainingView

_PAIRS_IN_CACHE, _PAIRS_ON_GPU = 2**15, 2**24
"""Pairs of one call of `mutual_information`: on a CPU as many as its cache holds."""


@dataclass(frozen=True)
class Topology(Relation):
    r"""How much knowing one node's neighbours tells about the other's.

    Row u of A is read as V draws of a 0/1 variable :math:`S_u`:

    .. math:: s(u, v) = I(S_u; S_v) = \sum_{a, b \in \{0, 1\}} p_{ab} \log
              \frac{p_{ab}}{p_u(a) p_v(b)}

    with :math:`p_u(1) = d_u / V` and :math:`p_{11} = |N_u \cap N_v| / V`.

    Range: [0, log 2]. Symmetric. Without shared neighbours the similarity is small but
    positive, because disjoint neighbourhoods carry information, too.
    Cost: O(E) memory, O(b (E + V)) for b rows; the logarithms of pairs that share nothing depend on
    two degrees only and come from a table.
    Isolated node: 0 to every other node.
    Citation: Dong, Wu, Luo, Ge and Wang, "Node Representation Learning in Graph via
    Node-to-Neighbourhood Mutual Information Maximization", CVPR 2022.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(Topology(), path_of_four(), [0])
    [[0.562, 0.216, 0.216, 0.085]]
    """

    name: ClassVar[str] = "topology"
    title: ClassVar[str] = "Topology Sim."
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    cacheable: ClassVar[bool] = True
    in_range: ClassVar[bool] = True
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

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch:
        """Exact: nodes that share neighbours, merged with the best of those that share none.

        The similarity of two nodes that share nothing depends on their degrees only. So all nodes
        of one degree have the same order of such nodes. The best for u are the first of this order
        that share nothing with u and are not u. To find k of them, the first k + 1 + (number of
        nodes that share neighbours with u) are read. Where the k best that share neighbours are all
        better than the first of the order, none is read.

        Cost: a sort of the paths of two steps, and O(K k) for K different degrees in a part.
        """
        links, count = view.links(), view.num_nodes
        degrees, kind, disjoint = self.without_overlap(view)
        order = DegreeOrder(kind.cpu().numpy(), disjoint.cpu().numpy())
        best_disjoint = disjoint.amax(dim=1)
        pairs_per_block = _PAIRS_IN_CACHE if view.device.type == "cpu" else _PAIRS_ON_GPU

        def first(own: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
            """The first `length` nodes in the order of each degree in `own` (places in `degrees`).

            Keys, and similarities if the two nodes share no neighbour. Not sorted.
            """
            longest = torch.zeros(len(degrees), dtype=torch.int64, device=own.device)
            longest.scatter_reduce_(0, own, length, "amax")
            known = order.orders(longest.cpu().numpy())
            begin, values, nodes = (torch.from_numpy(part).to(own.device) for part in known)
            row, entry = ranges(begin[own], length)
            return row * count + nodes.index_select(0, entry), values.index_select(0, entry)

        def explore(nodes: Tensor) -> SparseRows:
            shared, own = common_neighbour_lists(links, nodes, ordered=False), kind[nodes]
            pairs = zip(
                torch.split(degrees[own].index_select(0, shared.row), pairs_per_block),
                torch.split(degrees[kind].index_select(0, shared.node), pairs_per_block),
                torch.split(shared.values.double(), pairs_per_block),
                strict=True,
            )
            alike = torch.cat([mutual_information(*part, count).float() for part in pairs])
            best = topk_of_lists(shared._replace(value=alike), nodes, TopK(top.k, top.k))
            enough = (top.k + 1 + shared.length).clamp_max(count)
            least = best.values.new_zeros(len(nodes))
            least.scatter_reduce_(0, best.row, best.values, "amin", include_self=False)
            least = torch.where(best.length == top.k, least, 0.0)
            key, value = first(own, torch.where(least <= best_disjoint[own], enough, 0))
            # A pair that shares neighbours is not one of the others, even if its similarity is 0.
            known = shared.key(count)
            known = sorted_keys(known) if known.is_cpu else known
            value = torch.where(is_among(key, known), 0.0, value)
            return SparseRows.from_unsorted_keys(
                torch.cat([best.key(count), key]),
                torch.cat([best.values, value]),
                len(nodes),
                count,
            )

        return topk_in_parts(explore, count_two_step_paths(view.adjacency) + top.k + 1, top, view)

    def of_pairs(self, view: TrainingView) -> PairFunction:
        """Mutual information."""
        shared = SharedNeighbours.among(view)
        degree = shared.degree.double()

        def compute(u: Tensor, v: Tensor) -> Tensor:
            both = shared(u, v).double()
            return mutual_information(degree[u], degree[v], both, view.num_nodes).float()

        return compute


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


class DegreeOrder:
    """The order of all nodes for each kind (degree): short beginnings of it, made by NumPy.

    Node v is of kind `kind[v]`, and `table` [K, K] is the similarity of two kinds.
    """

    def __init__(self, kind: np.ndarray, table: np.ndarray) -> None:
        self.table = table
        self.members = np.argsort(kind, kind="stable")
        self.size = np.bincount(kind, minlength=len(table))
        self.start = np.cumsum(self.size) - self.size

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
        parts = zip(self.start[chosen], self.start[chosen] + taken, strict=True)
        nodes = np.concatenate([self.members[first:end] for first, end in parts])
        values = np.repeat(value[chosen], taken)
        order = np.lexsort((nodes, -values))[:length]
        return values[order], nodes[order]
