r"""Thresholds of a row, and the level each pair reaches.

.. math:: \eta_{r,u}(q) = \text{the } q\text{-quantile of } \{s_r(u, v) \mid v \ne u\}

A pair is above when :math:`s_r(u,v) \ge \eta_{r,u}` and :math:`s_r(u,v) > 0`: in a sparse row most
similarities are 0, so is the quantile, and without the second condition every pair would be above.
With several quantiles the level of a pair is the number of thresholds it is above.

The quantile is the order statistic that numpy's linear interpolation rounds up to: the set of pairs
above it is the same, and the threshold is always a value that occurs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.kernels.use import kernels_run_on
from xtcl.relations.nth_largest import nth_largest

PAPER_QUANTILES = (0.99,)
MAX_QUANTILES = 255
"""As many as a level, a uint8, can count."""
MOST_IN_REGISTERS = 2**15
"""Nodes up to which a GPU reads a row once."""


def check_quantiles(quantiles: Sequence[float]) -> tuple[float, ...]:
    """The quantiles as an increasing tuple, or an error that says what is wrong with them."""
    levels = tuple(float(q) for q in quantiles)
    increasing = all(a < b for a, b in itertools.pairwise(levels))
    if not levels or not increasing or not (levels[0] >= 0 and levels[-1] < 1):
        raise UsageError(
            f"quantiles={tuple(quantiles)} must be increasing numbers in [0, 1), such as (0.99,)."
        )
    if len(levels) > MAX_QUANTILES:
        raise UsageError(f"quantiles=... are {len(levels)}; give {MAX_QUANTILES} at most.")
    return levels


def rank_from_top(quantile: float, count: int) -> int:
    """Which of `count` values, counted from the largest as 1, is their quantile."""
    return count - math.ceil(round(quantile * (count - 1), 9))


def thresholds(similarities: Tensor, nodes: Tensor, quantiles: Sequence[float]) -> Tensor:
    """Eta for each row and quantile, [b, L]. The entry of each node with itself does not count."""
    ranks = [rank_from_top(q, similarities.shape[1] - 1) for q in quantiles]
    itself = (torch.arange(len(nodes), device=nodes.device), nodes)
    own = similarities[itself]
    similarities[itself] = -1.0  # for a moment: a copy would be one more pass over the block
    if len(ranks) == 1:
        eta = nth_largest(similarities, ranks[0])
    else:
        largest = torch.topk(similarities, max(ranks), dim=1).values
        eta = torch.stack([largest[:, rank - 1] for rank in ranks], dim=1)
    similarities[itself] = own
    return eta


def levels_above(similarities: Tensor, nodes: Tensor, eta: Tensor) -> Tensor:
    """How many of its row's thresholds `eta` [b, L] each pair is above, uint8 [b, V]."""
    # The smallest positive number stands in for a threshold of 0: s >= tiny is s > 0.
    least = eta.clamp_min(torch.finfo(similarities.dtype).tiny)
    reached = (similarities >= least[:, :1]).view(torch.uint8)  # the same bits, and no copy
    for column in range(1, eta.shape[1]):
        reached += similarities >= least[:, column : column + 1]
    reached[torch.arange(len(nodes), device=nodes.device), nodes] = 0
    return reached


def levels(similarities: Tensor, nodes: Tensor, quantiles: Sequence[float]) -> Tensor:
    """How many thresholds each pair is above, uint8 [b, V]; 0 for a node with itself."""
    num_nodes = similarities.shape[1]
    if kernels_run_on(similarities.device) and num_nodes <= MOST_IN_REGISTERS:
        from xtcl.relations.kernels.row_levels import row_levels

        return row_levels(similarities, nodes, [rank_from_top(q, num_nodes - 1) for q in quantiles])
    return levels_above(similarities, nodes, thresholds(similarities, nodes, quantiles))
