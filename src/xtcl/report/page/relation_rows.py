"""The relations, how much each weighs, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

from xtcl.progress import Progress
from xtcl.relations.registry import relation_title
from xtcl.report.page.share_interval import wilson
from xtcl.report.page.shown_text import shown
from xtcl.sampling.intervals import Range, weight_intervals
from xtcl.sampling.xgsampler import XGSampler

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
        alone = wilson(round(weight.precision * weight.support), weight.support)
        rows.append(
            RelationRow(
                shown(relation_title(weight.relation)),
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
