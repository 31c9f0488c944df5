"""What all figures of the package share: colours, and files that appear whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from xtcl.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS, FIRST, OTHER = "#d1495b", "#2a6f97", "#9aa5b1"
PALETTE = ("#d1495b", "#2a6f97", "#66a182", "#edae49", "#8d6a9f", "#4a4e69", "#9aa5b1", "#b08968")
"""Told apart in print and by the colour-blind; ours is the first."""


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
