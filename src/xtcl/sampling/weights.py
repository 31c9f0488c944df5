"""The weights of the relations, fitted to counts of patterns (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from xtcl.config import SamplerConfig
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.stumps import (
    Stumps,
    fit_stumps,
    precision,
    prior_log_odds,
    training_order,
    with_prior,
)


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
