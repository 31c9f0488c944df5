"""Drawing and writing that reports share: colours, axes, pictures, and Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xtcl.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure


OURS, FIRST, OTHER = "#d1495b", "#2a6f97", "#9aa5b1"
"""Colours of XTCL, of the first method beside it, and of all others."""

PALETTE = ("#d1495b", "#2a6f97", "#66a182", "#edae49", "#8d6a9f", "#4a4e69", "#9aa5b1", "#b08968")
"""Distinct in print and for colour-blind readers; the first is that of XTCL."""

DASH = "–"  # noqa: RUF001
"""What a cell without a figure holds."""


@dataclass(frozen=True)
class Axis:
    """A range of numbers, with round ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    digits: int

    def share(self, value: float) -> float:
        """The position of a value, from 0 to 1."""
        return (value - self.low) / (self.high - self.low)

    def label(self, tick: float) -> str:
        """A tick as text, with as many decimals as the ticks need."""
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
    """The points of a curve for an SVG of this size; the first value is at x = 1."""
    return " ".join(
        f"{width * across.share(at):.1f},{height * (1 - up.share(value)):.1f}"
        for at, value in enumerate(values, start=1)
    )


@contextmanager
def picture(folder: Path, name: str, width: float, height: float) -> Iterator[Figure]:
    """A figure that is written as NAME.png and NAME.svg when the block ends."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # A fixed salt: the same figure gives the same bytes.
    with rc_context({"svg.hashsalt": "xtcl"}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        for kind, about in (("png", {"Software": "xtcl"}), ("svg", {"Date": None})):
            with atomic_path(folder / f"{name}.{kind}") as temporary:
                figure.savefig(temporary, format=kind, dpi=150, metadata=about)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    ruler = ["---"] * len(head)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ruler, *rows])


def page(parts: Iterable[str]) -> str:
    """Markdown of paragraphs, tables and lists; empty ones are left out."""
    return "\n\n".join(part for part in parts if part) + "\n"


def spread_labels(mean: float, error: float | None, sign: str = "", digits: int = 2) -> str:
    """A mean with its standard error; a single run has no error."""
    text = f"{mean:{sign}.{digits}f}"
    return text if error is None else f"{text} ± {error:.{digits}f}"
