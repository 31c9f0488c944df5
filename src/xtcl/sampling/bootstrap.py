"""Bootstrap intervals of the weights, from counts by groups of nodes.

Groups are drawn with replacement, and the stumps are fitted again to the sum of their counts
(Davison and Hinkley, "Bootstrap Methods and their Application", 1997, chapter 2). The candidates
stay the same, so an interval does not cover that other candidates could have been labelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xtcl.progress import Progress
from xtcl.sampling.counting import GroupCounts
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.weights import fit_weights

if TYPE_CHECKING:
    from xtcl.sampling.xgsampler import XGSampler

RESAMPLES = 200


_MIN_GROUPS = 5
"""Groups that a bootstrap needs at least."""


PERCENTILES = (2.5, 97.5)
"""95 of 100 resamples lie between them."""


Range = tuple[float, float]


@dataclass(frozen=True)
class WeightInterval:
    """Intervals of a relation: of the weight of a pair above, and of its precision."""

    weight: Range
    precision: Range


def weight_intervals(
    sampler: XGSampler, progress: Progress | None = None
) -> dict[str, WeightInterval]:
    """The interval of every relation; empty if the groups were not kept or are too few."""
    groups: GroupCounts | None = sampler.groups_
    if groups is None or len(groups.by_group()[1]) < _MIN_GROUPS:
        return {}
    names = [relation.name for relation in sampler.relations_]
    drawn: dict[str, list[Range]] = {name: [] for name in names}
    with (progress or Progress()).stage("resampling weights", RESAMPLES) as advance:
        for again in resampled_counts(groups, RESAMPLES, sampler.random_state_):
            for weight in fit_weights(names, sampler.settings_, again).weights:
                drawn[weight.relation].append((weight.w1, weight.precision))
            advance(1)
    return {name: _interval(np.array(values)) for name, values in drawn.items()}


def resampled_counts(groups: GroupCounts, resamples: int, seed: int) -> Iterator[PatternCounts]:
    """Counts of as many groups as there are, drawn with replacement, `resamples` times."""
    codes, counts = groups.by_group()
    number = len(counts)
    rng = np.random.default_rng([seed, 1])
    for times in rng.multinomial(number, np.full(number, 1 / number), resamples):
        yield PatternCounts(codes, np.tensordot(times, counts, axes=1))


def _interval(drawn: np.ndarray) -> WeightInterval:
    (low, least), (high, most) = np.percentile(drawn, PERCENTILES, axis=0).tolist()
    return WeightInterval((low, high), (least, most))
