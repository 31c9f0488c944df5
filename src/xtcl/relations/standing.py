"""Where one node stands in the row of another."""

from __future__ import annotations

from typing import NamedTuple


class Standing(NamedTuple):
    """A pair's similarity, its row's thresholds, and how many of them it is above."""

    similarity: float
    thresholds: tuple[float, ...]
    level: int
