"""Semantic relations: similarities between nodes, computed a block of rows at a time.

Modules of this package import from each other and never from the package itself.
"""

from __future__ import annotations

from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.cosine import topk_by_factors
from xtcl.relations.custom import FunctionRelation, MatrixRelation
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.relations.registry import (
    make_relation,
    register_relation,
    relation_names,
    resolve_relations,
)
from xtcl.relations.relation import Relation
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.topk import TopK
from xtcl.relations.topology import Topology
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

__all__ = [
    "ATTRIBUTES",
    "LABELS",
    "LINKS",
    "AttributeDistribution",
    "AttributeLabelDistribution",
    "AttributeSimilarity",
    "FunctionRelation",
    "GraphDistance",
    "Jaccard",
    "LabelDistribution",
    "Link",
    "MatrixRelation",
    "PageRank",
    "Relation",
    "RelationStore",
    "SparseRows",
    "TopK",
    "Topology",
    "TrainingView",
    "make_relation",
    "register_relation",
    "relation_names",
    "resolve_relations",
    "topk_by_factors",
]
