"""Attribute distribution of the neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import scipy.sparse as sp
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.cosine import cosine_rows, nearest_by_factors, propagate
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.topk import Cut, Nearest, NearestRows
from xtcl.relations.view import ATTRIBUTES, LINKS, TrainingView


@dataclass(frozen=True)
class AttributeDistribution(Relation):
    r"""Two nodes are alike when their neighbours, taken together, have alike attributes.

    .. math:: s(u, v) = \cos(x^k_u, x^k_v), \qquad x^k_u = \text{Normalize}(A^k X)_u

    Range: [0, 1]; a negative cosine counts as 0. Symmetric. The paper uses k = 1.
    Cost: O(V D) memory, O(k E D) once and O(b V D) for b rows.
    Isolated node: 0 to every other node.
    Citation: Zhu and Ghahramani, "Learning from labeled and unlabeled data with label propagation",
    2002, with attributes in the place of labels.

    >>> from xtcl.relations.relation import path_of_four, rows
    >>> rows(AttributeDistribution(), path_of_four(), [0])
    [[1.0, 1.0, 0.894, 0.707]]
    """

    hops: int = 1

    name: ClassVar[str] = "attribute-distribution"
    title: ClassVar[str] = "1-Hop Attr. Dist."
    reads: ClassVar[frozenset[str]] = frozenset({ATTRIBUTES, LINKS})

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise UsageError(f"AttributeDistribution needs hops of at least 1, not {self.hops}.")

    def factors(self, view: TrainingView) -> Tensor:
        """The attributes summed over walks of k steps."""
        return propagate(view, view.dense_attributes(), self.hops)

    def prepare(self, view: TrainingView) -> Rows:
        """Cosines of the factors."""
        return cosine_rows(self.factors(view))


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
