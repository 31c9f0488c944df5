"""Personalised PageRank."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.kernels.use import kernels_run_on
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.sparse import product, scaled, to_device
from xtcl.relations.view import LINKS, TrainingView

Solve = Callable[[Tensor], Tensor]
"""Takes nodes u [b], gives a solution in each column [V, b]."""

TOLERANCE = 1e-8
"""Residual left by the iteration. Similarities under ten times this are noise and count as 0."""


def products(alpha: float) -> int:
    """How many products Chebyshev iteration takes to TOLERANCE."""
    rate = alpha / (1 + math.sqrt(1 - alpha**2))
    return math.ceil(math.log(TOLERANCE / 2) / math.log(rate))


@dataclass(frozen=True)
class PageRank(Relation):
    r"""Where a random walk that starts at u, and returns there now and then, spends its time.

    .. math:: \pi_u = \alpha P \pi_u + (1 - \alpha) e_u, \qquad s(u, v) = \pi_{u,v},
              \qquad P = A D^{-1}

    Range: [0, 1]; with its own entry the row of a linked node sums to 1. Not symmetric:
    s(u, v) d_u = s(v, u) d_v, with d the degrees.
    Cost: O(E + b V) memory, O(k b E) for b rows with k products. The symmetric form of the equation
    has its spectrum in [1 - alpha, 1 + alpha], so Chebyshev iteration needs k = 33 products at
    alpha = 0.85 where the power iteration needs 113.
    Isolated node: 0 to every other node.
    Citation: Page, Brin, Motwani and Winograd, "The PageRank Citation Ranking", 1999.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(PageRank(alpha=0.5), path_of_four(), [0])
    [[0.578, 0.311, 0.089, 0.022]]
    """

    alpha: float = 0.85

    name: ClassVar[str] = "pagerank"
    title: ClassVar[str] = "PageRank"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    by_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise UsageError(f"PageRank needs 0 < alpha < 1, not {self.alpha}; 0.85 is usual.")

    def prepare(self, view: TrainingView) -> Rows:
        """Scale the adjacency symmetrically once; a block of rows is one block of right sides."""
        degree = np.maximum(np.asarray(view.adjacency.sum(axis=1), dtype=np.float64), 1.0)
        root = np.sqrt(degree)
        symmetric = scaled(view.adjacency, self.alpha / root, 1.0 / root)
        solve = self._solver(symmetric.astype(np.float32), view.device)
        scale = torch.tensor(root, dtype=torch.float32, device=view.device)

        def compute(nodes: Tensor) -> Tensor:
            solution = solve(nodes)
            rank = (1 - self.alpha) * solution.T * scale / scale[nodes, None]
            return torch.where(rank > 10 * TOLERANCE, rank, 0.0)

        return compute

    def _solver(self, walk: sp.csr_array, device: torch.device) -> Solve:
        """Chebyshev iteration for (I - walk) y = e_u, walk symmetric with spectrum ±alpha.

        A step is y' = w (walk y + e_u - y_before) + y_before, with a weight w that converges.
        """
        step = _quick_step(walk, device) if kernels_run_on(device) else _plain_step(walk, device)

        def solve(nodes: Tensor) -> Tensor:
            before = torch.zeros(walk.shape[0], len(nodes), device=device)
            current = before.clone()
            current.scatter_(0, nodes[None], 1.0)  # e_u in the column of u
            weight = 2.0
            for _ in range(products(self.alpha)):
                weight = 1 / (1 - self.alpha**2 * weight / 4)
                step(before, current, nodes, weight)
                before, current = current, before
            return current

        return solve


Step = Callable[[Tensor, Tensor, Tensor, float], None]
"""Takes y_before, which becomes y', y, the nodes u and w."""


def _plain_step(walk: sp.csr_array, device: torch.device) -> Step:
    links = to_device(walk, device)

    def step(before: Tensor, current: Tensor, nodes: Tensor, weight: float) -> None:
        before.lerp_(product(links, current), weight)
        before[nodes, torch.arange(len(nodes), device=device)] += weight

    return step


def _quick_step(walk: sp.csr_array, device: torch.device) -> Step:
    from xtcl.relations.kernels.product import Links, add_product_

    links = Links.of(walk, device)

    def step(before: Tensor, current: Tensor, nodes: Tensor, weight: float) -> None:
        add_product_(before, links, current, nodes, 1 - weight, weight, weight)

    return step
