"""Axes and points of the charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """A stretch of numbers, with round ones to mark."""

    low: float
    high: float
    ticks: tuple[float, ...]
    digits: int

    def share(self, value: float) -> float:
        """How far along a value lies, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)

    def label(self, tick: float) -> str:
        """A mark in words, with the digits that its neighbours need."""
        return f"{tick:,.{self.digits}f}"


def axis(values: Sequence[float], marks: int = 5) -> Axis:
    """An axis with round ends that holds all values."""
    low, high = min(values), max(values)
    if high - low < 1e-9 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    rough = (high - low) / marks
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * size for size in (1, 2, 5, 10) if power * size >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(step * number for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks, max(0, -math.floor(math.log10(step) + 1e-9)))


def polyline(across: Axis, up: Axis, values: Sequence[float], width: float, height: float) -> str:
    """The points of a curve whose first value is at 1, for an SVG of this size."""
    return " ".join(
        f"{width * across.share(at):.1f},{height * (1 - up.share(value)):.1f}"
        for at, value in enumerate(values, start=1)
    )
