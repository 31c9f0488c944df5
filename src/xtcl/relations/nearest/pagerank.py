r"""PageRank by forward push, from all sources of a block together.

With :math:`G = (1 - \alpha)(I - \alpha P)^{-1}`, so that :math:`\pi_u = G e_u`, an estimate p and a
residual r keep :math:`\pi_u = p + G r`. A push of v moves :math:`(1 - \alpha) r_v` to :math:`p_v`
and spreads :math:`\alpha r_v` over the neighbours. It ends with :math:`r_w \le \epsilon d_w`
everywhere, and since :math:`\pi_{w,v} d_w = \pi_{v,w} d_v`,

.. math:: 0 \le \pi_{u,v} - p_v = \sum_w r_w \pi_{w,v}
          = d_v \sum_w \frac{r_w}{d_w} \pi_{v,w} \le \epsilon d_v.

What is left of :math:`G r` starts with :math:`(1 - \alpha) r`, which costs nothing to add: p stays
below :math:`\pi` and comes closer.

Pushes cost at most :math:`1 / (\epsilon (1 - \alpha))` steps, each to a neighbour. If all of the
walk stayed in a set of cap nodes of mean degree, each link's end there would have a share of
:math:`1 / (cap \cdot \bar d)`. :math:`\epsilon` is the fraction SHARPNESS of it: the error is small
against what the cap best have in the mean, and the cost grows like cap times the links.

Citation: Andersen, Chung and Lang, "Local graph partitioning using PageRank vectors", FOCS 2006.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from xtcl.relations.nearest.cut import Cut, best_of_lists, chosen
from xtcl.relations.nearest.dense import of_whole_rows
from xtcl.relations.nearest.parts import MAX_PATHS, in_parts, room
from xtcl.relations.nearest.rows import Nearest
from xtcl.relations.pagerank import TOLERANCE, PageRank
from xtcl.relations.view import TrainingView

SHARPNESS = 0.1
SOURCES = 4096
"""How many are pushed together to begin with."""

Finish = Callable[[sp.csr_array, np.ndarray], sp.csr_array]


def push_error(view: TrainingView, cap: int) -> float:
    r""":math:`\epsilon`: with cap best asked for, s(u, v) is at most this times d_v too small."""
    return SHARPNESS / (cap * max(view.adjacency.nnz / view.num_nodes, 1.0))


class Push:
    """Pushes until no residual exceeds `error` times the degree of its node."""

    def __init__(self, links: sp.csr_array, alpha: float, error: float) -> None:
        self.alpha, self.error = alpha, error
        self.degree = np.diff(links.indptr).astype(np.float64)
        # A residual that stays is multiplied by the upper half, one that is pushed by the lower.
        walk = sp.diags_array(alpha / np.maximum(self.degree, 1)) @ links
        self.stay_or_go = sp.csr_array(sp.vstack([sp.eye_array(len(self.degree)), walk]))

    def __call__(self, nodes: np.ndarray, finish: Finish) -> sp.csr_array:
        """Estimates p of the rows `nodes`, sparse [b, V], made shorter by `finish`."""
        shape = (len(nodes), len(self.degree))
        own = (np.ones(len(nodes)), nodes, np.arange(len(nodes) + 1))
        return self._go_on(nodes, sp.csr_array(shape), sp.csr_array(own, shape=shape), finish)

    def _go_on(
        self, nodes: np.ndarray, found: sp.csr_array, left: sp.csr_array, finish: Finish
    ) -> sp.csr_array:
        """Push from estimates and residuals on; in halves where they would take too much memory."""
        while (large := left.data > self.error * self.degree[left.indices]).any():
            steps = self.degree[left.indices[large]].sum()
            if len(nodes) > 1 and found.nnz + left.nnz + steps > room():
                middle = len(nodes) // 2
                halves = (slice(middle), slice(middle, None))
                done = [self._go_on(nodes[h], found[h], left[h], finish) for h in halves]
                return sp.csr_array(sp.vstack(done, format="csr"))
            found = sp.csr_array(found + (1 - self.alpha) * chosen(left, large))
            column = left.indices + len(self.degree) * large
            shape = (len(nodes), 2 * len(self.degree))
            left = sp.csr_array((left.data, column, left.indptr), shape=shape) @ self.stay_or_go
        return finish(sp.csr_array(found + (1 - self.alpha) * left), nodes)


def nearest_by_pagerank(relation: PageRank, view: TrainingView, cut: Cut) -> Nearest:
    """Within `push_error`, and exact where the cap exceeds the quantile's rank."""
    if cut.full:
        return of_whole_rows(relation.on(view), cut)
    push = Push(view.adjacency, relation.alpha, push_error(view, cut.cap))

    def finish(found: sp.csr_array, nodes: np.ndarray) -> sp.csr_array:
        found.data[found.data <= 10 * TOLERANCE] = 0.0
        return best_of_lists(found, nodes, cut)

    few = np.full(view.num_nodes, MAX_PATHS // SOURCES)
    return in_parts(lambda nodes: push(nodes, finish), few, cut, view)
