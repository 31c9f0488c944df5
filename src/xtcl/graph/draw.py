"""Seeded draws that the splits and the synthetic graphs share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from xtcl.errors import DataError, UsageError

Keys = NDArray[np.int64]


def generator(seed: int) -> np.random.Generator:
    """A generator of our own, so that the global random state neither matters nor changes."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"seed must be a whole number from 0 on, not {seed!r}.")
    return np.random.default_rng(int(seed))


def training_count(total: int, train: float, what: str) -> int:
    """How many of `total` things train; refuses a share that leaves either side empty."""
    if not 0 < train < 1:
        raise UsageError(f"train={train} is not a share: give a number between 0 and 1, say 0.6.")
    count = round(train * total)
    if not 0 < count < total:
        side = "test" if count else "training"
        raise DataError(
            f"train={train} of {total} {what} leaves no {side} {what}: choose another share."
        )
    return count


def distinct(draw: Callable[[int], Keys], want: int) -> Keys:
    """The first `want` different keys of an endless stream, in the order they came.

    `draw(n)` gives the stream's next keys, about n of them; the stream must be able to give `want`
    different ones. Where it is uniform, this is a uniform sample without replacement, and costs
    O(want log want) as long as the stream can give many more than `want`.
    """
    keys = np.empty(0, dtype=np.int64)
    while keys.size < want:
        keys = np.concatenate([keys, draw(2 * (want - keys.size) + 64)])
        _, first = np.unique(keys, return_index=True)
        keys = keys[np.sort(first)]
    return keys[:want]
