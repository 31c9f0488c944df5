"""The nearest rows of a relation, found the way that fits its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from xtcl.relations.attribute_distribution import AttributeDistribution, AttributeDistributionRows
from xtcl.relations.attribute_label_distribution import (
    AttributeLabelDistribution,
    attribute_label_factors,
)
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.common_neighbours import Links, neighbourhood
from xtcl.relations.cosine import nearest_by_factors
from xtcl.relations.graph_distance import GraphDistance, nearest_by_distance_numpy
from xtcl.relations.graph_distance import nearest_by_distance as torch_by_distance
from xtcl.relations.jaccard import Jaccard, nearest_by_jaccard_numpy
from xtcl.relations.jaccard import nearest_by_jaccard as torch_by_jaccard
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.link import Link, nearest_by_link_numpy
from xtcl.relations.link import nearest_by_link as torch_by_link
from xtcl.relations.pagerank import PageRank, nearest_by_pagerank_numpy
from xtcl.relations.pagerank import nearest_by_pagerank as torch_by_pagerank
from xtcl.relations.relation import Relation
from xtcl.relations.search import index_name
from xtcl.relations.sparse import is_among, ranges
from xtcl.relations.topk import Cut, Nearest, parts, topk_from_dense, uses_torch_search
from xtcl.relations.topology import Topology, mutual_information, nearest_by_topology_numpy
from xtcl.relations.topology import nearest_by_topology as torch_by_topology
from xtcl.relations.view import LABELS, TrainingView

Method = Callable[[Any, TrainingView, Cut, int | None], Nearest]


SparseMethod = Callable[[Any, TrainingView, Cut], Nearest]


def _sparse(on_cpu: SparseMethod, on_device: SparseMethod) -> Method:
    def method(relation: Any, view: TrainingView, cut: Cut, index_past: int | None) -> Nearest:
        return (on_device if uses_torch_search(view.device) else on_cpu)(relation, view, cut)

    return method


def _own_factors(
    relation: AttributeSimilarity | AttributeDistribution | LabelDistribution,
    view: TrainingView,
    cap: int,
    index_past: int | None,
) -> Tensor:
    return relation.factors(view)


def _of_attributes(
    relation: AttributeSimilarity, view: TrainingView, cut: Cut, index_past: int | None
) -> Nearest:
    return nearest_by_factors(relation.factors(view), cut, index_past)


FACTORS: dict[type[Relation], Callable[[Any, TrainingView, int, int | None], Tensor]] = {
    AttributeSimilarity: _own_factors,
    AttributeDistribution: _own_factors,
    LabelDistribution: _own_factors,
    AttributeLabelDistribution: attribute_label_factors,
}
"""For relations that are cosines of factors: these, with what they are made of cut to the cap."""


METHODS: dict[type[Relation], Method] = {
    Link: _sparse(nearest_by_link_numpy, torch_by_link),
    PageRank: _sparse(nearest_by_pagerank_numpy, torch_by_pagerank),
    Jaccard: _sparse(nearest_by_jaccard_numpy, torch_by_jaccard),
    Topology: _sparse(nearest_by_topology_numpy, torch_by_topology),
    GraphDistance: _sparse(nearest_by_distance_numpy, torch_by_distance),
    AttributeSimilarity: _of_attributes,
    AttributeDistribution: AttributeDistributionRows,
}
"""For relations that read no labels, and so are the same for all folds of labels."""


def nearest(
    relation: Relation,
    view: TrainingView,
    quantile: float,
    cap: int,
    *,
    index_past: int | None = None,
    few: bool = False,
) -> Nearest:
    """The above set of rows, cut to the `cap` best by similarity, equals in the order of nodes.

    With a cap of V - 1 it is the above set of the exact mode. PageRank is within a stated error
    where the cap is below the quantile's rank. Where more than `index_past` nodes have different
    factors, an index of FAISS finds most of the best (see its `recall`); left out, all is searched.
    Where only a `few` rows will be asked for, no index is built that serves this view alone.
    A relation of another type, one derived from ours too, is computed in whole rows.
    """
    cut = Cut.of(quantile, cap, view.num_nodes)
    kind = type(relation)
    if kind in FACTORS and LABELS in relation.reads:
        factors = FACTORS[kind](relation, view, cut.cap, index_past)
        return nearest_by_factors(factors, cut, None if few else index_past)
    method = METHODS.get(kind)
    if method is None:
        return topk_from_dense(relation.on(view), cut)
    # The same for all views that differ in labels only, and an index takes long to build.
    key = ("nearest", relation, cut, index_past)
    return view.once(key, lambda: method(relation, view, cut, index_past), relation.reads)


def index_settings(
    relation: Relation, view: TrainingView, index_past: int | None, *, few: bool
) -> dict[str, Any]:
    """What decides the lists of `nearest` where an index may have a say in them, else nothing.

    A `few` rows of labels are searched exactly, but what labels are spread over may have been found
    by an index all the same.
    """
    asked = index_past is not None and index_past < view.num_nodes
    if type(relation) not in FACTORS or not asked or uses_torch_search(view.device):
        return {}
    exactly = {"few": True} if few and LABELS in relation.reads else {}
    return index_name(index_past) | exactly


# Similarities of single pairs that follow from their degrees and the neighbours they share.
#
# Of two nodes the one with fewer neighbours is gone through, and each of them looked up among the
# links of the other. So a pair has the similarity of the exact row, however far down in it.


AT_ONCE = 2**22
"""Neighbours to look up at once, but for those of a single pair: some 200 MB."""


Similarity = Callable[[Tensor, Tensor], Tensor]
"""Takes nodes u and v, each [m], gives s(u, v), float32 [m]."""


class SharedNeighbours:
    """How many neighbours pairs share.

    Cost: the smaller degree of each, times log E, and O(E) memory.
    """

    @classmethod
    def among(cls, view: TrainingView) -> SharedNeighbours:
        """Those of a view, once for all relations."""
        return view.once("shared neighbours", lambda: cls(Links.among(view)))

    def __init__(self, links: Links) -> None:
        self.degree = links.degree
        self._links = links
        source = torch.repeat_interleave(
            torch.arange(links.num_nodes, device=links.end.device), self.degree
        )
        self._keys = source * links.num_nodes + links.end

    def linked(self, u: Tensor, v: Tensor) -> Tensor:
        """Which pairs are links: bool [m]."""
        return is_among(u * self._links.num_nodes + v, self._keys)

    def __call__(self, u: Tensor, v: Tensor) -> Tensor:
        """How many neighbours each pair shares: int64 [m]."""
        first = self.degree[u] <= self.degree[v]
        few, many = torch.where(first, u, v), torch.where(first, v, u)
        pairs = torch.arange(len(u), device=u.device)
        together = parts(pairs, self.degree[few], AT_ONCE)
        return torch.cat([self._shared(few[part], many[part]) for part in together])

    def _shared(self, few: Tensor, many: Tensor) -> Tensor:
        pair, entry = ranges(self._links.start[few], self.degree[few])
        held = self.linked(many[pair], self._links.end[entry])
        return torch.zeros_like(few).index_add_(0, pair, held.long())


def by_link(relation: Link, view: TrainingView) -> Similarity:
    """Entries of the normalised adjacency."""
    shared = SharedNeighbours.among(view)
    scale = 1.0 / torch.sqrt(shared.degree.double() + 1.0)

    def of(u: Tensor, v: Tensor) -> Tensor:
        return torch.where(shared.linked(u, v), scale[u] * scale[v], 0.0).float()

    return of


def by_jaccard(relation: Jaccard, view: TrainingView) -> Similarity:
    """Common neighbours over the product of degrees."""
    shared = SharedNeighbours.among(view)
    if relation.hops > 1:
        near = neighbourhood(view.adjacency, relation.hops)
        shared = SharedNeighbours(Links.of(near, view.device))
    size = shared.degree.clamp_min(1).float()

    def of(u: Tensor, v: Tensor) -> Tensor:
        return shared(u, v) / (size[v] * size[u])

    return of


def by_topology(relation: Topology, view: TrainingView) -> Similarity:
    """Mutual information."""
    shared = SharedNeighbours.among(view)
    degree = shared.degree.double()

    def of(u: Tensor, v: Tensor) -> Tensor:
        both = shared(u, v).double()
        return mutual_information(degree[u], degree[v], both, view.num_nodes).float()

    return of


BY_PAIR: dict[type, Callable[[Any, TrainingView], Similarity]] = {
    Link: by_link,
    Jaccard: by_jaccard,
    Topology: by_topology,
}
"""The relations that need no more of a pair."""
