"""The weights of the relations: rows of the page, and the picture of a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xtcl.files import atomic_path
from xtcl.progress import Progress
from xtcl.relations.registry import relation_title
from xtcl.report.facts import escape_text
from xtcl.report.scores import wilson_interval
from xtcl.sampling.weights import Range, RelationWeight, weight_intervals
from xtcl.sampling.xgsampler import XGSampler

_MIN_PAIRS = 30
"""With fewer pairs, resampling shows too little of how much a weight may vary."""

_ABOVE_COLOUR, _BELOW_COLOUR = "#2a6f97", "#c9ada7"


@dataclass(frozen=True)
class RelationRow:
    """One relation. Runs of an older xtcl have no intervals."""

    title: str
    weight: float
    below: float
    precision: float
    support: int
    weight_interval: Range | None = None
    precision_interval: Range | None = None

    @property
    def has_few_pairs(self) -> bool:
        """Whether the interval rests on too few pairs."""
        return self.support < _MIN_PAIRS

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval of the weight and zero is outside of it."""
        return self.weight_interval is not None and (
            self.weight_interval[0] > 0 or self.weight_interval[1] < 0
        )


def relation_rows(sampler: XGSampler, progress: Progress | None = None) -> tuple[RelationRow, ...]:
    """All relations of the fit, sorted descending by weight."""
    intervals = weight_intervals(sampler, progress)
    rows = []
    for weight in sorted(sampler.relation_weights_, key=lambda w: -w.w1):
        interval = intervals.get(weight.relation)
        # Resamples of a few pairs that are all alike have no spread. The interval of the precision
        # is therefore never narrower than that of a share of so many pairs.
        share = wilson_interval(round(weight.precision * weight.support), weight.support)
        rows.append(
            RelationRow(
                escape_text(relation_title(weight.relation)),
                weight.w1,
                weight.w0,
                weight.precision,
                weight.support,
                None if interval is None else interval.weight,
                None if interval is None else _widest(interval.precision, share),
            )
        )
    return tuple(rows)


def _widest(first: Range, second: Range) -> Range:
    return min(first[0], second[0]), max(first[1], second[1])


def draw_weights(weights: Sequence[RelationWeight], path: Path, title: str = "") -> None:
    """Draw w1 (above) and w0 (below) of each relation in training order, with its precision."""
    from matplotlib.figure import Figure

    rows = list(weights)[::-1]
    figure = Figure(figsize=(8.0, 0.9 + 0.5 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows))
    axes.barh(
        [p + 0.19 for p in places],
        [w.w1 for w in rows],
        0.36,
        color=_ABOVE_COLOUR,
        label="above (w1)",
    )
    axes.barh(
        [p - 0.19 for p in places],
        [w.w0 for w in rows],
        0.36,
        color=_BELOW_COLOUR,
        label="below (w0)",
    )
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_yticks(
        list(places),
        [
            f"{relation_title(w.relation)}\n{w.precision:.0%} of {w.support:,} pairs alike"
            for w in rows
        ],
        fontsize=9,
        parse_math=False,  # dollar signs in a name do not start a formula
    )
    axes.set_xlabel("weight added to the score of a pair")
    axes.set_title(
        f"Which relations speak for alike nodes{': ' + title if title else ''}", parse_math=False
    )
    axes.legend(loc="best", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150, metadata={"Software": "xtcl"})
