"""Label distribution among the nodes with alike attributes around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.distributed import all_gather_rows
from xtcl.relations.attribute_distribution import BLOCK, AttributeDistribution, _kept, _search
from xtcl.relations.cosine import cosine_rows
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.thresholds import check_quantiles, levels
from xtcl.relations.topk import Cut
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

TILES = 8
"""Tiles of a GPU before it hands over what they have above: it waits each time."""


@dataclass(frozen=True)
class AttributeLabelDistribution(Relation):
    r"""Two nodes are alike when the nodes whose neighbourhoods resemble theirs have alike labels.

    .. math:: s(u, v) = \cos(\hat y^k_u, \hat y^k_v), \qquad
              \hat y^k_u = \text{Normalize}(S^k Y)_u

    :math:`S^k` is the k-hop attribute distribution similarity, kept where it is above its row's
    threshold: the paper writes all of S, but a sum over all nodes is nearly the same for every u.
    A node is never its own neighbour in S. Y is one-hot for training nodes and zero elsewhere.

    Range: [0, 1]. Symmetric.
    Cost: one pass over the attribute distribution, O(V^2 D), shared by all folds; it keeps the
    pairs above with a labelled node, O((1 - q) V L) memory for L labels and more only where
    similarities tie at the threshold; then O(b V C) for b rows.
    Isolated node, or one with no labelled node above its threshold: 0 to every other node.
    Citation: Lin and Neville, "Improving Node Representation by Boosting Task-Aware Contrastive
    Loss", 2024, Appendix B.

    >>> from xtcl.relations.relation import path_of_four, rows
    >>> rows(AttributeLabelDistribution(), path_of_four(), [1])
    [[0.0, 1.0, 0.0, 1.0]]
    """

    hops: int = 1
    quantile: float = 0.99

    name: ClassVar[str] = "attribute-label-distribution"
    title: ClassVar[str] = "Attr. Label Dist."
    reads: ClassVar[frozenset[str]] = frozenset({ATTRIBUTES, LABELS, LINKS})

    def __post_init__(self) -> None:
        check_quantiles([self.quantile])
        AttributeDistribution(self.hops)

    def prepare(self, view: TrainingView) -> Rows:
        """The factors are the training labels summed over the above pairs."""
        labelled = view.label_holders
        key = (self.name, self.hops, self.quantile, labelled.tobytes())
        above = view.once(key, lambda: self._above(view, labelled))
        return cosine_rows(self.spread_over(above, view, labelled))

    @staticmethod
    def spread_over(above: sp.csr_array, view: TrainingView, columns: np.ndarray) -> Tensor:
        """The factors: training labels summed over `above`, a sparse matrix of V rows.

        Its columns are the nodes `columns`.
        """
        counted = above @ view.one_hot_labels()[columns]
        return torch.from_numpy(counted).to(view.device, torch.float32)

    def _above(self, view: TrainingView, labelled: np.ndarray) -> sp.csr_array:
        """Similarity of all nodes to `labelled` ones where it is above, a sparse matrix [V, L]."""
        similarity = AttributeDistribution(self.hops).on(view)
        kept = torch.from_numpy(labelled).to(view.device)

        def block(nodes: Tensor) -> sp.csr_array:
            rows = similarity(nodes)
            above = levels(rows, nodes, [self.quantile])[:, kept] > 0
            start = torch.nn.functional.pad(above.sum(dim=1).cumsum(0), (1, 0))
            parts = rows[:, kept][above], torch.nonzero(above)[:, 1], start
            shape = (len(nodes), len(labelled))
            return sp.csr_array(tuple(part.cpu().numpy() for part in parts), shape=shape)

        everyone = torch.arange(view.num_nodes, device=view.device)
        tiles = 1 if view.device.type == "cpu" else TILES
        return all_gather_rows(block, everyone, tiles * similarity.tile, len(labelled))


def attribute_label_factors(
    relation: AttributeLabelDistribution, view: TrainingView, cap: int, index_past: int | None
) -> Tensor:
    """Its factors with S^k cut to the cap. O(V cap) memory for it, shared by all folds."""
    source = AttributeDistribution(relation.hops)
    cut = Cut.of(relation.quantile, cap, view.num_nodes)

    def compute() -> sp.csr_array:
        find = _search(source, view, cut, index_past)
        everyone = torch.arange(view.num_nodes, device=view.device)
        return all_gather_rows(
            lambda nodes: find(nodes).matrix(view.num_nodes), everyone, BLOCK, view.num_nodes
        )

    above = view.once(_kept(source, cut, index_past), compute)
    return relation.spread_over(above, view, np.arange(view.num_nodes))
