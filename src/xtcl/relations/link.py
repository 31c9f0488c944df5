"""Has Link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.common_neighbours import SharedNeighbours
from xtcl.relations.relation import PairFunction, Relation, Rows
from xtcl.relations.sparse import dense_rows, scaled, to_device
from xtcl.relations.topk import TopK, TopKSearch, topk_of_matrix
from xtcl.relations.view import LINKS, TrainingView


def normalised_adjacency(adjacency: sp.csr_array) -> sp.csr_array:
    r""":math:`\hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}`, with :math:`\tilde D` of A + I."""
    with_loops = sp.csr_array(adjacency + sp.eye_array(adjacency.shape[0], dtype=np.float32))
    scale = 1.0 / np.sqrt(np.asarray(with_loops.sum(axis=1), dtype=np.float64))
    return scaled(with_loops, scale, scale).astype(np.float32)


@dataclass(frozen=True)
class Link(Relation):
    r"""Two nodes are alike when they are linked, the more so the fewer other links they have.

    .. math:: s(u, v) = \tilde D^{-1/2} \tilde A \tilde D^{-1/2}[u, v],
              \quad \tilde A = A + I, \quad \tilde D_{uu} = \sum_v \tilde A_{uv}

    Range: 0, or from 1/V to 1/2 between linked nodes. Symmetric.
    Cost: O(E) memory, O(b V) for b rows.
    Isolated node: 0 to every other node.
    Citation: Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional Networks",
    ICLR 2017.

    Example: on the path 0 - 1 - 2 - 3 the ends have degree 2 with their loop, the middle ones 3.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(Link(), path_of_four(), [0, 1])
    [[0.5, 0.408, 0.0, 0.0], [0.408, 0.333, 0.333, 0.0]]
    """

    name: ClassVar[str] = "link"
    title: ClassVar[str] = "Link"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    cacheable: ClassVar[bool] = True
    in_range: ClassVar[bool] = True
    row_by_row: ClassVar[bool] = True

    def prepare(self, view: TrainingView) -> Rows:
        """Normalise the adjacency once; a row is one of its rows."""
        weights = to_device(normalised_adjacency(view.adjacency), view.device)

        def compute(nodes: Tensor) -> Tensor:
            return dense_rows(weights, nodes)

        return compute

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch:
        """Exact. Cost: O(d_u log d_u) for a row."""
        return topk_of_matrix(normalised_adjacency(view.adjacency), top, view)

    def of_pairs(self, view: TrainingView) -> PairFunction:
        """Entries of the normalised adjacency."""
        shared = SharedNeighbours.among(view)
        scale = 1.0 / torch.sqrt(shared.degree.double() + 1.0)

        def compute(u: Tensor, v: Tensor) -> Tensor:
            return torch.where(shared.linked(u, v), scale[u] * scale[v], 0.0).float()

        return compute
