"""Whether probabilities mean what they say, on nodes that were held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BINS = 10


@dataclass(frozen=True)
class Bin:
    """Nodes with a probability from `low` to `high`: what was said on average, and what was."""

    low: float
    high: float
    count: int
    said: float
    right: float


@dataclass(frozen=True)
class Reliability:
    """The bins that have nodes, and the expected calibration error: the mean gap, by nodes."""

    bins: tuple[Bin, ...]
    ece: float
    said: float
    right: float


def reliability(sureness: np.ndarray, is_right: np.ndarray) -> Reliability:
    """In ten bins of equal width (Guo and others, ICML 2017); at least one node."""
    place = np.minimum((sureness * BINS).astype(int), BINS - 1)
    bins = []
    for at in np.unique(place):
        inside = place == at
        said, right = float(sureness[inside].mean()), float(is_right[inside].mean())
        bins.append(Bin(float(at / BINS), float((at + 1) / BINS), int(inside.sum()), said, right))
    gap = sum(each.count * abs(each.said - each.right) for each in bins) / len(sureness)
    return Reliability(tuple(bins), gap, float(sureness.mean()), float(is_right.mean()))
