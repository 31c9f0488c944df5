"""Attribute similarity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from xtcl.relations.cosine import CosineRelation
from xtcl.relations.topk import TopK
from xtcl.relations.view import ATTRIBUTES, TrainingView


@dataclass(frozen=True)
class AttributeSimilarity(CosineRelation):
    r"""Two nodes are alike when their attributes point the same way.

    .. math:: s(u, v) = \cos(x_u, x_v)

    Range: [0, 1]; a negative cosine counts as 0. Symmetric.
    Cost: O(V D) memory, O(b V D) for b rows; O(E D) for all rows of linked pairs (`linked_only`).
    Isolated node: like any other. A node whose attributes are all zero: 0 to every other node.
    Citation: Salton, Wong and Yang, "A vector space model for automatic indexing", Communications
    of the ACM 18, 1975.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(AttributeSimilarity(), path_of_four(), [0])
    [[1.0, 0.707, 0.0, 0.0]]
    """

    name: ClassVar[str] = "attribute-similarity"
    title: ClassVar[str] = "Attr Sim."
    reads: ClassVar[frozenset[str]] = frozenset({ATTRIBUTES})
    cacheable: ClassVar[bool] = True
    in_range: ClassVar[bool] = True

    def raw_factors(self, view: TrainingView, top: TopK | None = None) -> Tensor:
        """The attributes themselves."""
        return view.dense_attributes()
