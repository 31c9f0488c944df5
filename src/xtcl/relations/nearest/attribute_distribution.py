"""Attribute distribution, and the label distribution that is spread over its above pairs."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import scipy.sparse as sp
import torch

from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.factors import nearest_by_factors
from xtcl.relations.nearest.rows import Nearest, NearestRows
from xtcl.relations.view import TrainingView

BLOCK = 2**14


def nearest_by_attribute_distribution(
    relation: AttributeDistribution, view: TrainingView, cut: Cut, index_past: int | None
) -> Nearest:
    """By its factors, or from what the label relation below has kept of the same."""
    key = _key(relation, cut, index_past)
    if key not in view.shared:
        return nearest_by_factors(relation.factors(view), cut, index_past)
    kept: sp.csr_array = view.shared[key]
    return lambda nodes: NearestRows.of(kept[nodes.cpu().numpy()], view.device)


def nearest_by_attribute_label_distribution(
    relation: AttributeLabelDistribution, view: TrainingView, cut: Cut, index_past: int | None
) -> Nearest:
    """By its factors, with S^k cut to the cap. O(V cap) memory for it, shared by all folds."""
    source = AttributeDistribution(relation.hops)
    inner = Cut.of(relation.quantile, cut.cap, view.num_nodes)

    def compute() -> sp.csr_array:
        find = nearest_by_factors(source.factors(view), inner, index_past)
        blocks = torch.split(torch.arange(view.num_nodes, device=view.device), BLOCK)
        return sp.csr_array(
            sp.vstack([find(block).matrix(view.num_nodes) for block in blocks], format="csr")
        )

    above = view.once(_key(source, inner, index_past), compute)
    factors = relation.spread_over(above, view, np.arange(view.num_nodes))
    return nearest_by_factors(factors, cut, index_past)


def _key(relation: AttributeDistribution, cut: Cut, index_past: int | None) -> Hashable:
    return ("nearest", relation, cut, index_past)
