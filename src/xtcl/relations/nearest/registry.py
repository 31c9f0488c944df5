"""The nearest rows of a relation, found the way that fits its kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.link import Link
from xtcl.relations.nearest.attribute_distribution import (
    AttributeDistributionRows,
    attribute_label_factors,
)
from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.dense import of_whole_rows
from xtcl.relations.nearest.factors import nearest_by_factors
from xtcl.relations.nearest.graph_distance import nearest_by_distance
from xtcl.relations.nearest.index import index_name
from xtcl.relations.nearest.jaccard import nearest_by_jaccard
from xtcl.relations.nearest.link import nearest_by_link
from xtcl.relations.nearest.on_device import graph_distance, jaccard, link, pagerank, topology
from xtcl.relations.nearest.on_device.use import explores_on
from xtcl.relations.nearest.pagerank import nearest_by_pagerank
from xtcl.relations.nearest.rows import Nearest
from xtcl.relations.nearest.topology import nearest_by_topology
from xtcl.relations.pagerank import PageRank
from xtcl.relations.relation import Relation
from xtcl.relations.topology import Topology
from xtcl.relations.view import LABELS, TrainingView

Method = Callable[[Any, TrainingView, Cut, int | None], Nearest]
SparseMethod = Callable[[Any, TrainingView, Cut], Nearest]


def _sparse(on_cpu: SparseMethod, on_device: SparseMethod) -> Method:
    def method(relation: Any, view: TrainingView, cut: Cut, index_past: int | None) -> Nearest:
        return (on_device if explores_on(view.device) else on_cpu)(relation, view, cut)

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
    Link: _sparse(nearest_by_link, link.nearest_by_link),
    PageRank: _sparse(nearest_by_pagerank, pagerank.nearest_by_pagerank),
    Jaccard: _sparse(nearest_by_jaccard, jaccard.nearest_by_jaccard),
    Topology: _sparse(nearest_by_topology, topology.nearest_by_topology),
    GraphDistance: _sparse(nearest_by_distance, graph_distance.nearest_by_distance),
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
        return of_whole_rows(relation.on(view), cut)
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
    if type(relation) not in FACTORS or not asked or explores_on(view.device):
        return {}
    exactly = {"few": True} if few and LABELS in relation.reads else {}
    return index_name(index_past) | exactly
