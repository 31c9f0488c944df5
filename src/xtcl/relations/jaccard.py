"""Jaccard similarity, as the paper prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xtcl.errors import UsageError, is_number
from xtcl.relations.common_neighbours import (
    SharedNeighbours,
    common_neighbour_lists,
    common_neighbours,
    count_two_step_paths,
    neighbourhood,
)
from xtcl.relations.relation import PairFunction, Relation, Rows
from xtcl.relations.sparse import CSRGraph, SparseRows
from xtcl.relations.topk import TopK, TopKSearch, topk_in_parts
from xtcl.relations.view import LINKS, TrainingView


@dataclass(frozen=True)
class Jaccard(Relation):
    r"""Two nodes are alike when they have neighbours in common, for how many they have.

    .. math:: s(u, v) = \frac{|N^k_u \cap N^k_v|}{|N^k_u| \times |N^k_v|}

    with the product below the bar, as the paper prints it, and not the size of the union.
    :math:`N^k_u` are the nodes within k steps of u, without u.

    Range: [0, 1]. Symmetric.
    Cost: O(E) memory for k = 1; for b rows O(b V) and their paths of two steps, or O(b E).
    Isolated node: 0 to every other node.
    Citation: Newman, "Clustering and preferential attachment in growing networks", Physical Review
    E 64, 2001.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(Jaccard(), path_of_four(), [0])
    [[1.0, 0.0, 0.5, 0.0]]
    """

    hops: int = 1

    name: ClassVar[str] = "jaccard"
    title: ClassVar[str] = "Jaccard Sim."
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    cacheable: ClassVar[bool] = True
    in_range: ClassVar[bool] = True
    row_by_row: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not is_number(self.hops) or self.hops < 1:
            raise UsageError(f"Jaccard needs hops of at least 1, not {self.hops}.")

    def prepare(self, view: TrainingView) -> Rows:
        """Count common neighbours; divide by both sizes."""
        near = neighbourhood(view.adjacency, self.hops)
        shared = common_neighbours(near, view.device)
        size = torch.tensor(
            np.maximum(np.asarray(near.sum(axis=1)), 1.0), dtype=torch.float32, device=view.device
        )

        def compute(nodes: Tensor) -> Tensor:
            return shared(nodes) / (size * size[nodes, None])

        return compute

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch:
        """Exact. Cost: a sort of the paths of two steps, the sum of d_w over N_u for a row."""
        near = neighbourhood(view.adjacency, self.hops)
        links = CSRGraph.from_scipy(near, view.device)
        size = links.degree.float()

        def explore(nodes: Tensor) -> SparseRows:
            shared = common_neighbour_lists(links, nodes, ordered=False)
            sizes = size.index_select(0, shared.node) * size[nodes].index_select(0, shared.row)
            return shared._replace(value=shared.values / sizes)

        return topk_in_parts(explore, count_two_step_paths(near), top, view)

    def of_pairs(self, view: TrainingView) -> PairFunction:
        """Common neighbours over the product of degrees."""
        if self.hops == 1:
            shared = SharedNeighbours.among(view)
        else:
            near = neighbourhood(view.adjacency, self.hops)
            shared = SharedNeighbours(CSRGraph.from_scipy(near, view.device))
        size = shared.degree.clamp_min(1).float()

        def compute(u: Tensor, v: Tensor) -> Tensor:
            return shared(u, v) / (size[v] * size[u])

        return compute
