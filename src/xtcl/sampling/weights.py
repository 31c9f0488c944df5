"""The weights of the relations, fitted to counts of patterns (Algorithm 1), and their intervals.

Intervals are those of a bootstrap of groups of nodes. Groups are drawn with replacement, and the
stumps are fitted again to the sum of their counts (Davison and Hinkley, "Bootstrap Methods and
their Application", 1997, chapter 2). The candidates stay the same, so an interval does not cover
that other candidates could have been labelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from xtcl.config import SamplerConfig
from xtcl.progress import Progress
from xtcl.sampling.patterns import GroupCounts, PatternCounts
from xtcl.sampling.stumps import (
    Stumps,
    fit_stumps,
    precision,
    prior_log_odds,
    training_order,
    with_prior,
)

if TYPE_CHECKING:
    from xtcl.sampling.xgsampler import XGSampler


@dataclass(frozen=True)
class RelationWeight:
    """The fitted weights of one relation.

    `order` is its place in the training order (1 is first), `precision` the share of matches among
    the `support` counted pairs at its highest level, `w0` and `w1` the weights of a pair below all
    thresholds and above all of them, `weights` the weight of every level, `importance` the largest
    of their absolute values: the paper's max(|w0|, |w1|).
    """

    relation: str
    order: int
    precision: float
    support: int
    w0: float
    w1: float
    importance: float
    weights: tuple[float, ...]

    def to_json(self) -> dict[str, object]:
        """Plain values for a JSON file."""
        return asdict(self) | {"weights": list(self.weights)}


class FittedWeights(NamedTuple):
    """The stumps, and the weights of each relation in training order."""

    stumps: Stumps
    weights: tuple[RelationWeight, ...]


def fit_weights(
    names: Sequence[str], settings: SamplerConfig, table: PatternCounts
) -> FittedWeights:
    """Fit the stumps of the relations `names`, the digits of the codes, to counts of patterns."""
    top = len(settings.quantiles)
    digits, counts = table.levels(len(names), top), table.counts
    precisions, support = precision(digits, counts, top)
    order = training_order(precisions, support)
    base = settings.base_score
    believed = with_prior(digits, counts, top, settings.prior_pairs)
    stumps = fit_stumps(
        *believed,
        num_levels=top + 1,
        order=order,
        base=prior_log_odds(counts) if isinstance(base, str) else float(base),
        sweeps=settings.sweeps,
        penalty=settings.penalty,
        backtracking=isinstance(base, str),
    )
    if isinstance(base, str):
        stumps = stumps.centred(*believed)
    weights = tuple(
        RelationWeight(
            relation=names[r],
            order=place + 1,
            precision=float(precisions[r]),
            support=int(support[r]),
            w0=float(stumps.weights[r, 0]),
            w1=float(stumps.weights[r, -1]),
            importance=float(np.abs(stumps.weights[r]).max()),
            weights=tuple(float(w) for w in stumps.weights[r]),
        )
        for place, r in enumerate(order)
    )
    return FittedWeights(stumps, weights)


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
