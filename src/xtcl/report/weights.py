"""The relations, how much each weighs, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xtcl.files import atomic_path
from xtcl.progress import Progress
from xtcl.relations.registry import relation_title
from xtcl.report.facts import escape_text
from xtcl.report.scores import wilson_interval
from xtcl.sampling.bootstrap import Range, weight_intervals
from xtcl.sampling.xgsampler import RelationWeight, XGSampler

FEW = 30


@dataclass(frozen=True)
class RelationRow:
    """One relation. Without intervals the run was written before they could be made."""

    title: str
    weight: float
    below: float
    precision: float
    support: int
    weight_interval: Range | None = None
    precision_interval: Range | None = None

    @property
    def is_few(self) -> bool:
        """Whether resampling has too few pairs to show how much they could vary."""
        return self.support < FEW

    @property
    def is_clear(self) -> bool:
        """Whether the interval of the weight leaves zero out."""
        return self.weight_interval is not None and (
            self.weight_interval[0] > 0 or self.weight_interval[1] < 0
        )


def relation_rows(sampler: XGSampler, progress: Progress | None = None) -> tuple[RelationRow, ...]:
    """All relations of the fit, the heaviest first."""
    intervals = weight_intervals(sampler, progress)
    rows = []
    for weight in sorted(sampler.relation_weights_, key=lambda w: -w.w1):
        interval = intervals.get(weight.relation)
        # A few pairs that are all alike look the same however often they are drawn: a share of so
        # many is never surer than its own interval.
        alone = wilson_interval(round(weight.precision * weight.support), weight.support)
        rows.append(
            RelationRow(
                escape_text(relation_title(weight.relation)),
                weight.w1,
                weight.w0,
                weight.precision,
                weight.support,
                None if interval is None else interval.weight,
                None if interval is None else _widest(interval.precision, alone),
            )
        )
    return tuple(rows)


def _widest(first: Range, second: Range) -> Range:
    return min(first[0], second[0]), max(first[1], second[1])


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
