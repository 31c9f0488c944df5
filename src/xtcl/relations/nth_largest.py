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
"""One of so many numbers is in the sample: a line of a CPU's cache in so many lines."""
LONG = 2**12
"""Numbers of a row for which a sample is worth the while."""
MOST = 4
"""Rows of whose numbers one in so many would be listed go to the heap."""


def nth_largest(rows: Tensor, rank: int) -> Tensor:
    """Of each row [b, n] of numbers the one with `rank`, counted from the largest as 1: [b, 1]."""
    width = rows.shape[1]
    expected = rank / STRIDE
    safe = math.ceil(expected + 3 * math.sqrt(expected) + 3)
    short = width < LONG or MOST * STRIDE * safe > width
    if rows.device.type != "cpu" or short or not len(rows):
        return _by_heap(rows, rank)
    sample = _sampled(rows)
    guess = _by_heap(sample, safe)
    # Where most are 0, or many are equal, there is nothing to gain.
    few = (guess[:, 0] > 0) & (2 * MOST * (sample >= guess).sum(dim=1) < sample.shape[1])
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
    group = STRIDE * STRIDE
    whole = rows.shape[1] // group * group
    return rows[:, :whole].reshape(len(rows), -1, group)[:, :, :STRIDE].flatten(1)


def _of_listed(rows: Tensor, guess: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The answer from the numbers that reach a row's guess, and whether these are as many."""
    shares = (torch.chunk(part, torch.get_num_threads()) for part in (rows, guess))
    parts = [(row.numpy(), least.numpy()) for row, least in zip(*shares, strict=True)]
    listed = side_by_side(lambda part: _listed(*part, rank), parts)
    answers = [_by_heap(torch.from_numpy(few), rank) for few, _ in listed]
    return torch.cat(answers), torch.from_numpy(np.concatenate([good for _, good in listed]))


def _listed(rows: np.ndarray, guess: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that reach a row's guess, side by side, and whether they are of use."""
    reaching = rows >= guess
    if MOST * np.count_nonzero(reaching) > reaching.size:
        return np.zeros((len(rows), rank), dtype=rows.dtype), np.zeros(len(rows), dtype=bool)
    place = np.flatnonzero(reaching)
    row = place // rows.shape[1]
    number = np.bincount(row, minlength=len(rows))
    turn = np.arange(len(row)) - np.repeat(np.cumsum(number) - number, number)
    few = np.zeros((len(rows), max(rank, int(number.max()))), dtype=rows.dtype)
    few[row, turn] = rows.reshape(-1)[place]
    return few, number >= rank
