"""Label distribution among the nodes with alike attributes around them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.distributed import all_gather_rows
from xtcl.relations.attribute_distribution import AttributeDistribution, lists_key
from xtcl.relations.cosine import CosineRelation, normalize_rows
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.relation import Relation, tile_rows
from xtcl.relations.thresholds import check_quantiles, levels
from xtcl.relations.topk import TopK, topk_search
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView

_TILES_PER_BLOCK = 8
"""Tiles of a GPU before what they have above is copied to the CPU: it waits each time."""

_LISTS_PER_BLOCK = 2**14
"""Nodes whose lists are found at once."""


@dataclass(frozen=True)
class AttributeLabelDistribution(CosineRelation):
    r"""Two nodes are alike when the nodes whose neighbourhoods resemble theirs have alike labels.

    .. math:: s(u, v) = \cos(\hat y^k_u, \hat y^k_v), \qquad
              \hat y^k_u = \text{Normalize}(S^k Y)_u

    :math:`S^k` is the k-hop attribute distribution similarity. Y is one-hot for training nodes and
    zero elsewhere. There are three forms of it:

    - By default S is kept where it is above its row's threshold, without the diagonal: a sum over
      all nodes is nearly the same for every u.
    - With `thresholded=False` it is all of S with the diagonal, as the paper prints it.
    - With `linked_only` it is all of S between linked nodes, and s(u, v) is 0 for other pairs.

    Range: [0, 1]. Symmetric.
    Cost: one pass over the attribute distribution, O(V^2 D), shared by all folds; it keeps the
    pairs above with a labelled node, O((1 - q) V L) memory for L labels and more only where
    similarities tie at the threshold; then O(b V C) for b rows. With `thresholded=False` the pass
    is O(V D C), because S Y = F (F^T Y) for normalised factors F; where factors are negative, S
    cuts some products to 0, and the pass is O(V L D) for each fold. With `linked_only` all rows
    take O(E (D + C)).
    Isolated node, or one with no labelled node above its threshold: 0 to every other node.
    Citation: Lin and Neville, "Improving Node Representation by Boosting Task-Aware Contrastive
    Loss", 2024, Appendix B.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(AttributeLabelDistribution(), path_of_four(), [1])
    [[0.0, 1.0, 0.0, 1.0]]
    """

    hops: int = 1
    quantile: float = 0.99
    thresholded: bool = field(default=True, kw_only=True)

    name: ClassVar[str] = "attribute-label-distribution"
    title: ClassVar[str] = "Attr. Label Dist."
    reads: ClassVar[frozenset[str]] = frozenset({ATTRIBUTES, LABELS, LINKS})
    cacheable: ClassVar[bool] = True
    in_range: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_quantiles([self.quantile])
        AttributeDistribution(self.hops)

    def timed_as(self) -> tuple[Relation, Relation] | None:
        """By default it is prepared by a pass over all rows of the attribute distribution."""
        if self.linked_only or not self.thresholded:
            return None
        return AttributeDistribution(self.hops), LabelDistribution()

    def raw_factors(self, view: TrainingView, top: TopK | None = None) -> Tensor:
        """The training labels summed over S: its above pairs, all of it, or its linked pairs.

        With `top` the above pairs of a row are cut to the k best: O(V k) memory, shared by all
        folds.
        """
        every_node = np.arange(view.num_nodes)
        if self.linked_only:
            source = AttributeDistribution(self.hops, linked_only=True)
            return self._label_sums(source.linked_similarities(view), view, every_node)
        if not self.thresholded:
            return _label_sums_over_all(AttributeDistribution(self.hops).raw_factors(view), view)
        if top is None:
            labelled = view.all_labelled
            key = (self.name, self.hops, self.quantile, labelled.tobytes())
            above = view.cached(key, lambda: self._above(view, labelled))
            return self._label_sums(above, view, labelled)
        return self._label_sums(self._lists(view, top), view, every_node)

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


def _label_sums_over_all(factors: Tensor, view: TrainingView) -> Tensor:
    """S Y for S = max(cos, 0) of the rows of `factors`, the diagonal included: float32 [V, C]."""
    rows = normalize_rows(factors)
    labels = torch.from_numpy(view.one_hot_labels()).to(view.device)
    if (rows < 0).any():
        known = torch.from_numpy(np.flatnonzero(view.labels >= 0)).to(view.device)
        others, classes = rows[known].T, labels[known]
        blocks = torch.split(rows, tile_rows(view.device))
        return torch.cat([(block @ others).clamp_(0.0, 1.0) @ classes for block in blocks])
    # Distributions over all nodes are close to each other, so their sums have double precision.
    blocks = torch.split(rows, _LISTS_PER_BLOCK)
    parts = zip(blocks, torch.split(labels, _LISTS_PER_BLOCK), strict=True)
    sums = sum(block.double().T @ own.double() for block, own in parts)
    return torch.cat([(block.double() @ sums).float() for block in blocks])
