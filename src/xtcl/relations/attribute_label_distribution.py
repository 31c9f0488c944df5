"""Label distribution among the nodes with alike attributes around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.distributed import all_gather_rows
from xtcl.relations.attribute_distribution import AttributeDistribution, lists_key
from xtcl.relations.cosine import cosine_rows, topk_by_factors
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.thresholds import check_quantiles, levels
from xtcl.relations.topk import TopK, TopKSearch, topk_search
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

_TILES_PER_BLOCK = 8
"""Tiles of a GPU before what they have above is copied to the CPU: it waits each time."""

_LISTS_PER_BLOCK = 2**14
"""Nodes whose lists are found at once."""


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
    cacheable: ClassVar[bool] = True
    in_range: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_quantiles([self.quantile])
        AttributeDistribution(self.hops)

    def prepare(self, view: TrainingView) -> Rows:
        """Cosines of the factors."""
        return cosine_rows(self.factors(view))

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch:
        """The largest cosines of the factors; an index is only built for many rows of a view."""
        return topk_by_factors(self.factors(view, top), top.for_one_view())

    def factors(self, view: TrainingView, top: TopK | None = None) -> Tensor:
        """The training labels summed over the above pairs.

        With `top` the above pairs of a row are cut to the k best: O(V k) memory, shared by all
        folds.
        """
        if top is None:
            labelled = view.all_labelled
            key = (self.name, self.hops, self.quantile, labelled.tobytes())
            above = view.cached(key, lambda: self._above(view, labelled))
            return self._label_sums(above, view, labelled)
        lists = self._lists(view, top)
        return self._label_sums(lists, view, np.arange(view.num_nodes))

    @staticmethod
    def _label_sums(above: sp.csr_array, view: TrainingView, columns: np.ndarray) -> Tensor:
        """Training labels summed over `above`, a matrix of V rows whose columns are `columns`."""
        counted = above @ view.one_hot_labels()[columns]
        return torch.from_numpy(counted).to(view.device, torch.float32)

    def _above(self, view: TrainingView, labelled: np.ndarray) -> sp.csr_array:
        """Similarity of all nodes to `labelled` ones where it is above, a sparse matrix [V, L]."""
        similarity = AttributeDistribution(self.hops).on(view)
        columns = torch.from_numpy(labelled).to(view.device)

        def block(nodes: Tensor) -> sp.csr_array:
            rows = similarity(nodes)
            above = levels(rows, nodes, [self.quantile])[:, columns] > 0
            start = torch.nn.functional.pad(above.sum(dim=1).cumsum(0), (1, 0))
            parts = rows[:, columns][above], torch.nonzero(above)[:, 1], start
            shape = (len(nodes), len(labelled))
            return sp.csr_array(tuple(part.cpu().numpy() for part in parts), shape=shape)

        all_nodes = torch.arange(view.num_nodes, device=view.device)
        tiles = 1 if view.device.type == "cpu" else _TILES_PER_BLOCK
        return all_gather_rows(block, all_nodes, tiles * similarity.tile, len(labelled))

    def _lists(self, view: TrainingView, top: TopK) -> sp.csr_array:
        """Similarity of all nodes to the k best above, a sparse matrix [V, V]."""
        source, num_nodes = AttributeDistribution(self.hops), view.num_nodes
        source_top = TopK.of(self.quantile, top.k, num_nodes, top.index_threshold)

        def compute() -> sp.csr_array:
            search = topk_search(source, view, source_top)
            nodes = torch.arange(num_nodes, device=view.device)
            return all_gather_rows(
                lambda block: search(block).matrix(num_nodes), nodes, _LISTS_PER_BLOCK, num_nodes
            )

        return view.cached(lists_key(source, source_top), compute)
