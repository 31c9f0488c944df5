"""What the counts of patterns say about the relations: stumps, and a line on each relation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xtcl.sampling.findings import RelationWeight
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.settings import SamplerSettings
from xtcl.sampling.stumps import (
    Stumps,
    fit_stumps,
    precision,
    prior_log_odds,
    training_order,
    with_prior,
)


class Learned(NamedTuple):
    """The stumps, and the weights they come to, in training order."""

    stumps: Stumps
    weights: tuple[RelationWeight, ...]


def learn(names: Sequence[str], settings: SamplerSettings, table: PatternCounts) -> Learned:
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
        guarded=isinstance(base, str),
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
    return Learned(stumps, weights)
