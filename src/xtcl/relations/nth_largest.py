"""The n-th largest number of every row.

torch keeps the n largest in a heap while it passes over a row, 5 ns a number. On a CPU a sample of
a long row says quicker about how large the n-th is: few are no smaller than a safe guess, and the
heap gets only those. The answer is exact: a row whose guess was not safe, or would list too many,
goes to the heap as it is.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.side_by_side import side_by_side

STRIDE = 16
"""One of so many numbers is in the sample: a line of a CPU's cache, then as many lines not."""
LONG = 2**12
"""Numbers of a row for which a sample is worth the while."""


def nth_largest(rows: Tensor, rank: int) -> Tensor:
    """Of each row [b, n] of numbers the one with `rank`, counted from the largest as 1: [b, 1]."""
    width = rows.shape[1]
    expected = rank / STRIDE
    safe = math.ceil(expected + 3 * math.sqrt(expected) + 3)
    if rows.device.type != "cpu" or width < LONG or 4 * STRIDE * safe > width:
        return _by_heap(rows, rank)
    parts = torch.chunk(rows, torch.get_num_threads())
    return torch.cat(side_by_side(lambda part: _by_sample(part, rank, safe), parts))


def _by_heap(rows: Tensor, rank: int) -> Tensor:
    return torch.topk(rows, rank, dim=1, sorted=False).values.amin(1, keepdim=True)


def _by_sample(rows: Tensor, rank: int, safe: int) -> Tensor:
    """Guess from the place `safe` in a sample, which the n-th is most likely above."""
    sample = _sampled(rows)
    guess = _by_heap(sample, safe)
    # Where most are 0, or many are equal, there is nothing to gain.
    few = (guess[:, 0] > 0) & (8 * (sample >= guess).sum(dim=1) < sample.shape[1])
    place, left = torch.nonzero(few)[:, 0], torch.nonzero(~few)[:, 0]
    found = torch.empty_like(guess)
    if len(place):
        chosen = rows if len(place) == len(rows) else rows[place]
        found[place], safely = _listed(chosen.numpy(), guess[place].numpy(), rank)
        left = torch.cat([left, place[~safely]])
    if len(left):
        found[left] = _by_heap(rows[left] if len(place) else rows, rank)
    return found


def _sampled(rows: Tensor) -> Tensor:
    group = STRIDE * STRIDE
    whole = rows.shape[1] // group * group
    return rows[:, :whole].reshape(len(rows), -1, group)[:, :, :STRIDE].flatten(1)


def _listed(rows: np.ndarray, guess: np.ndarray, rank: int) -> tuple[Tensor, Tensor]:
    """The answer for each row, and whether it holds: `rank` of its numbers reach the guess."""
    place = np.flatnonzero(rows >= guess)
    row = place // rows.shape[1]
    listed = np.bincount(row, minlength=len(rows))
    turn = np.arange(len(row)) - np.repeat(np.cumsum(listed) - listed, listed)
    few = np.zeros((len(rows), max(rank, int(listed.max()))), dtype=rows.dtype)
    few[row, turn] = rows.reshape(-1)[place]
    return _by_heap(torch.from_numpy(few), rank), torch.from_numpy(listed >= rank)
