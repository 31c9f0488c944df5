"""Attribute distribution of the neighbourhood."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.cosine import CosineRelation, propagate
from xtcl.relations.sparse import SparseRows
from xtcl.relations.topk import TopK, TopKSearch
from xtcl.relations.view import ATTRIBUTES, LINKS, TrainingView


@dataclass(frozen=True)
class AttributeDistribution(CosineRelation):
    r"""Two nodes are alike when their neighbours, taken together, have alike attributes.

    .. math:: s(u, v) = \cos(x^k_u, x^k_v), \qquad x^k_u = \text{Normalize}(A^k X)_u

    Range: [0, 1]; a negative cosine counts as 0. Symmetric. The paper uses k = 1.
    Cost: O(V D) memory, O(k E D) once and O(b V D) for b rows; O(k E D) for all rows of linked
    pairs (`linked_only`).
    Isolated node: 0 to every other node.
    Citation: Zhu and Ghahramani, "Learning from labeled and unlabeled data with label propagation",
    2002, with attributes in the place of labels.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(AttributeDistribution(), path_of_four(), [0])
    [[1.0, 1.0, 0.894, 0.707]]
    """

    hops: int = 1

    name: ClassVar[str] = "attribute-distribution"
    title: ClassVar[str] = "1-Hop Attr. Dist."
    reads: ClassVar[frozenset[str]] = frozenset({ATTRIBUTES, LINKS})
    cacheable: ClassVar[bool] = True
    in_range: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hops < 1:
            raise UsageError(f"AttributeDistribution needs hops of at least 1, not {self.hops}.")

    def raw_factors(self, view: TrainingView, top: TopK | None = None) -> Tensor:
        """The attributes summed over walks of k steps."""
        return propagate(view, view.dense_attributes(), self.hops)

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch:
        """The best of each row, or the lists of all nodes where they are cached."""
        search = super().topk(view, top)
        return search if self.linked_only else _CachedListsSearch(search, view, self, top)


def lists_key(relation: AttributeDistribution, top: TopK) -> Hashable:
    """Under what `AttributeLabelDistribution` caches the lists of all nodes, a matrix [V, V]."""
    return ("lists", relation, top)


class _CachedListsSearch:
    """A search that reads the lists of all nodes as soon as they are cached in the view."""

    def __init__(
        self, search: TopKSearch, view: TrainingView, relation: AttributeDistribution, top: TopK
    ) -> None:
        self._search, self._view, self._key = search, view, lists_key(relation, top)
        self.index_recall: float | None = getattr(search, "index_recall", None)

    def __call__(self, nodes: Tensor) -> SparseRows:
        lists = self._view.label_free_cache.get(self._key)
        if lists is None:
            return self._search(nodes)
        return SparseRows.from_scipy(lists[nodes.cpu().numpy()], self._view.device)
