"""Label distribution of the neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.cosine import CosineRelation, propagate
from xtcl.relations.topk import TopK
from xtcl.relations.view import LABELS, LINKS, TrainingView


@dataclass(frozen=True)
class LabelDistribution(CosineRelation):
    r"""Two nodes are alike when the training labels around them are.

    .. math:: s(u, v) = \cos(y^k_u, y^k_v), \qquad y^k_u = \text{Normalize}(A^k Y)_u

    Y is one-hot for training nodes and zero elsewhere. The paper uses k = 2. Walks of two steps
    return to u, so a training node's own label is part of its distribution: the sampler fits this
    relation's weights on nodes whose labels were hidden (cross-fitting).

    Range: [0, 1]. Symmetric.
    Cost: O(V C) memory, O(k E C) once and O(b V C) for b rows; O(k E C) for all rows of linked
    pairs (`linked_only`).
    Isolated node, or one with no labelled node k steps away: 0 to every other node.
    Citation: Zhu and Ghahramani, "Learning from labeled and unlabeled data with label propagation",
    2002.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(LabelDistribution(), path_of_four(), [0])
    [[1.0, 0.0, 1.0, 0.0]]
    """

    hops: int = 2

    name: ClassVar[str] = "label-distribution"
    title: ClassVar[str] = "2-Hop Label Dist."
    reads: ClassVar[frozenset[str]] = frozenset({LABELS, LINKS})
    cacheable: ClassVar[bool] = True
    in_range: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hops < 1:
            raise UsageError(f"LabelDistribution needs hops of at least 1, not {self.hops}.")

    def raw_factors(self, view: TrainingView, top: TopK | None = None) -> Tensor:
        """The training labels summed over walks of k steps."""
        labels = torch.from_numpy(view.one_hot_labels()).to(view.device)
        return propagate(view, labels, self.hops)
