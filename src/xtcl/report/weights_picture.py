"""A picture of the relation weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xtcl.files import atomic_path
from xtcl.relations.registry import relation_title
from xtcl.sampling.findings import RelationWeight

ABOVE, BELOW = "#2a6f97", "#c9ada7"


def draw_weights(weights: Sequence[RelationWeight], path: Path, title: str = "") -> None:
    """Bars of w1 (above) and w0 (below) for each relation in training order, with its precision."""
    from matplotlib.figure import Figure

    rows = list(weights)[::-1]
    figure = Figure(figsize=(8.0, 0.9 + 0.5 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows))
    axes.barh(
        [p + 0.19 for p in places], [w.w1 for w in rows], 0.36, color=ABOVE, label="above (w1)"
    )
    axes.barh(
        [p - 0.19 for p in places], [w.w0 for w in rows], 0.36, color=BELOW, label="below (w0)"
    )
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_yticks(
        list(places),
        [
            f"{relation_title(w.relation)}\n{w.precision:.0%} of {w.support:,} pairs alike"
            for w in rows
        ],
        fontsize=9,
        parse_math=False,  # a name with dollar signs is no formula
    )
    axes.set_xlabel("weight added to the score of a pair")
    axes.set_title(
        f"Which relations speak for alike nodes{': ' + title if title else ''}", parse_math=False
    )
    axes.legend(loc="best", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": "xtcl"})
