"""Jaccard similarity, as the paper prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.common_neighbours import Links, common_neighbours, ends_of_two, neighbourhood
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.topk import Cut, Lists, Nearest, in_parts, in_parts_numpy, rows_of
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

    >>> from xtcl.relations.relation import path_of_four, rows
    >>> rows(Jaccard(), path_of_four(), [0])
    [[1.0, 0.0, 0.5, 0.0]]
    """

    hops: int = 1

    name: ClassVar[str] = "jaccard"
    title: ClassVar[str] = "Jaccard Sim."
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    row_by_row: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.hops < 1:
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


def paths_of_two(near: sp.csr_array) -> np.ndarray:
    """Number of paths of two steps from every node: what a row of `near @ near` costs at most."""
    return np.asarray(near @ np.diff(near.indptr).astype(np.float64)).astype(np.int64)


def nearest_by_jaccard_numpy(relation: Jaccard, view: TrainingView, cut: Cut) -> Nearest:
    """Exact, by a product of sparse rows. Cost: the paths of two steps, the sum of d_w over N_u."""
    near = neighbourhood(view.adjacency, relation.hops)
    size = np.diff(near.indptr).astype(np.float32)

    def explore(nodes: np.ndarray) -> sp.csr_array:
        shared = sp.csr_array(near[nodes] @ near)
        shared.data /= size[shared.indices] * size[nodes][rows_of(shared)]
        return shared

    return in_parts_numpy(explore, paths_of_two(near), cut, view)


def nearest_by_jaccard(relation: Jaccard, view: TrainingView, cut: Cut) -> Nearest:
    """Exact. Cost: a sort of the paths of two steps, the sum of d_w over N_u for a row."""
    near = neighbourhood(view.adjacency, relation.hops)
    links = Links.of(near, view.device)
    size = links.degree.float()

    def explore(nodes: Tensor) -> Lists:
        shared = ends_of_two(links, nodes)
        sizes = size[shared.node] * size[nodes][shared.row]
        return Lists(shared.key, shared.value / sizes, shared.shape)

    return in_parts(explore, paths_of_two(near), cut, view)
