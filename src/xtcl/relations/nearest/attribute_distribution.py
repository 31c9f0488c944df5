"""Attribute distribution, and the label distribution that is spread over its above pairs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.factors import nearest_by_factors
from xtcl.relations.nearest.rows import Nearest, NearestRows
from xtcl.relations.shared_rows import shared_rows
from xtcl.relations.view import TrainingView

BLOCK = 2**14


class AttributeDistributionRows:
    """By its factors, or from what the label relation below has kept of the same."""

    def __init__(
        self, relation: AttributeDistribution, view: TrainingView, cut: Cut, index_past: int | None
    ) -> None:
        self.view, self.key = view, _kept(relation, cut, index_past)
        self.search = _search(relation, view, cut, index_past)
        self.index_recall: float | None = getattr(self.search, "index_recall", None)

    def __call__(self, nodes: Tensor) -> NearestRows:
        """The above sets of `nodes`."""
        kept: sp.csr_array | None = self.view.shared.get(self.key)
        if kept is None:
            return self.search(nodes)
        return NearestRows.of(kept[nodes.cpu().numpy()], self.view.device)


def attribute_label_factors(
    relation: AttributeLabelDistribution, view: TrainingView, cap: int, index_past: int | None
) -> Tensor:
    """Its factors with S^k cut to the cap. O(V cap) memory for it, shared by all folds."""
    source = AttributeDistribution(relation.hops)
    cut = Cut.of(relation.quantile, cap, view.num_nodes)

    def compute() -> sp.csr_array:
        find = _search(source, view, cut, index_past)
        everyone = torch.arange(view.num_nodes, device=view.device)
        return shared_rows(
            lambda nodes: find(nodes).matrix(view.num_nodes), everyone, BLOCK, view.num_nodes
        )

    above = view.once(_kept(source, cut, index_past), compute)
    return relation.spread_over(above, view, np.arange(view.num_nodes))


def _search(
    relation: AttributeDistribution, view: TrainingView, cut: Cut, index_past: int | None
) -> Nearest:
    """The search by factors; one for all who ask, because an index takes long to build."""
    return view.once(
        ("search", relation, cut, index_past),
        lambda: nearest_by_factors(relation.factors(view), cut, index_past),
    )


def _kept(
    relation: AttributeDistribution, cut: Cut, index_past: int | None
) -> tuple[str, AttributeDistribution, Cut, int | None]:
    return ("kept", relation, cut, index_past)
