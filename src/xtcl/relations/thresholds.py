r"""Thresholds of a row, and the level each pair reaches.

.. math:: \eta_{r,u}(q) = \text{the } q\text{-quantile of } \{s_r(u, v) \mid v \ne u\}

A pair is above when :math:`s_r(u,v) \ge \eta_{r,u}` and :math:`s_r(u,v) > 0`: in a sparse row most
similarities are 0, so is the quantile, and without the second condition every pair would be above.
With several quantiles the level of a pair is the number of thresholds it is above. `AboveRule` has
both conditions, v != u and s > 0, as switches.

The quantile is the order statistic that numpy's linear interpolation rounds up to: the set of pairs
above it is the same, and the threshold is always a value that occurs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from xtcl.errors import UsageError, is_number
from xtcl.relations.blocks import thread_map
from xtcl.relations.sparse import kernels_run_on

PAPER_QUANTILES = (0.99,)


MAX_QUANTILES = 255
"""As many as a level, a uint8, can count."""


MOST_IN_REGISTERS = 2**15
"""Nodes up to which a GPU reads a row once."""


class AboveRule(NamedTuple):
    """When a pair is above, besides its threshold."""

    positive_only: bool = True
    """Whether s > 0 is needed. Without it all pairs of a row with a threshold of 0 are above."""
    self_pairs: bool = False
    """Whether s(u, u) counts for the threshold of u, and (u, u) may be above."""


USUAL_RULE = AboveRule()


def check_quantiles(quantiles: Sequence[float]) -> tuple[float, ...]:
    """The quantiles as an increasing tuple, or an error that describes what is wrong."""
    listed = isinstance(quantiles, Iterable) and not isinstance(quantiles, str)
    if not listed or not all(map(is_number, quantiles)):
        raise UsageError(f"quantiles={quantiles!r} must be a list of numbers, such as (0.99,).")
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


def thresholds(
    similarities: Tensor,
    nodes: Tensor,
    quantiles: Sequence[float],
    self_pairs: bool = False,
) -> Tensor:
    """Eta for each row and quantile, [b, L], without the entry of each node with itself.

    That counts only with `self_pairs`.
    """
    if self_pairs:
        return _row_quantiles(similarities, quantiles, similarities.shape[1])
    itself = (torch.arange(len(nodes), device=nodes.device), nodes)
    own = similarities[itself]
    similarities[itself] = -1.0  # for a moment: a copy would be one more pass over the block
    eta = _row_quantiles(similarities, quantiles, similarities.shape[1] - 1)
    similarities[itself] = own
    return eta


def _row_quantiles(rows: Tensor, quantiles: Sequence[float], count: int) -> Tensor:
    """The quantiles of the `count` largest of each row, [b, L]."""
    ranks = [rank_from_top(q, count) for q in quantiles]
    if len(ranks) == 1:
        return nth_largest(rows, ranks[0])
    largest = torch.topk(rows, max(ranks), dim=1).values
    return torch.stack([largest[:, rank - 1] for rank in ranks], dim=1)


def levels_above(
    similarities: Tensor, nodes: Tensor, eta: Tensor, rule: AboveRule = USUAL_RULE
) -> Tensor:
    """How many of its row's thresholds `eta` [b, L] each pair is above, uint8 [b, V]."""
    # The smallest positive number stands in for a threshold of 0: s >= tiny is s > 0.
    tiny = torch.finfo(similarities.dtype).tiny
    least = eta.clamp_min(tiny) if rule.positive_only else eta
    reached = (similarities >= least[:, :1]).view(torch.uint8)  # the same bits, and no copy
    for column in range(1, eta.shape[1]):
        reached += similarities >= least[:, column : column + 1]
    if not rule.self_pairs:
        reached[torch.arange(len(nodes), device=nodes.device), nodes] = 0
    return reached


def levels(
    similarities: Tensor,
    nodes: Tensor,
    quantiles: Sequence[float],
    rule: AboveRule = USUAL_RULE,
) -> Tensor:
    """How many thresholds each pair is above, uint8 [b, V]; 0 for a node with itself by default."""
    num_nodes = similarities.shape[1]
    usual = rule == USUAL_RULE and num_nodes <= MOST_IN_REGISTERS
    if usual and kernels_run_on(similarities.device):
        from xtcl.relations.triton_kernels import row_levels

        return row_levels(similarities, nodes, [rank_from_top(q, num_nodes - 1) for q in quantiles])
    eta = thresholds(similarities, nodes, quantiles, rule.self_pairs)
    return levels_above(similarities, nodes, eta, rule)


SAMPLE_STRIDE = 16
"""One of so many numbers is in the sample; whole lines of a CPU's cache are taken or left out."""


LONG_ROW = 2**12
"""Shorter rows are not sampled: that would take more time than it saves."""


NUMBERS_PER_LISTED = 4
"""Numbers are listed where at most one in so many is; other rows go to the heap as they are."""


def nth_largest(rows: Tensor, rank: int) -> Tensor:
    """Of each row [b, n] of numbers the one with `rank`, counted from the largest as 1: [b, 1].

    torch keeps the n largest in a heap while it passes over a row, 5 ns a number. On a CPU a sample
    of a long row gives a safe lower bound faster, and only the few numbers above it go to the heap.
    The result is exact: a row whose bound was not safe, or that has too many numbers above it, goes
    to the heap as it is.
    """
    width = rows.shape[1]
    expected = rank / SAMPLE_STRIDE
    safe = math.ceil(expected + 3 * math.sqrt(expected) + 3)
    short = width < LONG_ROW or NUMBERS_PER_LISTED * SAMPLE_STRIDE * safe > width
    if rows.device.type != "cpu" or short or not len(rows):
        return _by_heap(rows, rank)
    sample = _sampled(rows)
    guess = _by_heap(sample, safe)
    # Where most are 0, or many are equal, there is nothing to gain.
    in_sample = (sample >= guess).sum(dim=1)
    few = (guess[:, 0] > 0) & (2 * NUMBERS_PER_LISTED * in_sample < sample.shape[1])
    place, left = torch.nonzero(few)[:, 0], torch.nonzero(~few)[:, 0]
    found = torch.empty_like(guess)
    if len(place):
        chosen = rows if len(place) == len(rows) else rows[place]
        found[place], safely = _of_listed(chosen, guess[place], rank)
        left = torch.cat([left, place[~safely]])
    if len(left):
        found[left] = _by_heap(rows[left] if len(place) else rows, rank)
    return found


def _by_heap(rows: Tensor, rank: int) -> Tensor:
    return torch.topk(rows, rank, dim=1, sorted=False).values.amin(1, keepdim=True)


def _sampled(rows: Tensor) -> Tensor:
    group = SAMPLE_STRIDE * SAMPLE_STRIDE
    whole = rows.shape[1] // group * group
    return rows[:, :whole].reshape(len(rows), -1, group)[:, :, :SAMPLE_STRIDE].flatten(1)


def _of_listed(rows: Tensor, guess: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Of each row the number with `rank`, found among its numbers that are at least its guess.

    Also for which rows that is right: those with `rank` or more such numbers.
    """
    shares = (torch.chunk(part, torch.get_num_threads()) for part in (rows, guess))
    parts = [(row.numpy(), least.numpy()) for row, least in zip(*shares, strict=True)]
    listed = thread_map(lambda part: _listed(*part, rank), parts)
    answers = [_by_heap(torch.from_numpy(few), rank) for few, _ in listed]
    return torch.cat(answers), torch.from_numpy(np.concatenate([good for _, good in listed]))


def _listed(rows: np.ndarray, guess: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each row the numbers that are at least its guess, then 0; and whether there are `rank`.

    Where they are too many altogether, nothing is listed, and the answer is False for all rows.
    """
    reaching = rows >= guess
    if NUMBERS_PER_LISTED * np.count_nonzero(reaching) > reaching.size:
        return np.zeros((len(rows), rank), dtype=rows.dtype), np.zeros(len(rows), dtype=bool)
    place = np.flatnonzero(reaching)
    row = place // rows.shape[1]
    number = np.bincount(row, minlength=len(rows))
    rank_in_row = np.arange(len(row)) - np.repeat(np.cumsum(number) - number, number)
    few = np.zeros((len(rows), max(rank, int(number.max()))), dtype=rows.dtype)
    few[row, rank_in_row] = rows.reshape(-1)[place]
    return few, number >= rank
