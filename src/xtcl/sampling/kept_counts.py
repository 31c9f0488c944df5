"""What a sampler has counted, as named arrays for a file, and a sampler from them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from xtcl.relations.view import TrainingView
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.xgsampler import XGSampler


def counted(sampler: XGSampler) -> dict[str, np.ndarray]:
    """The counts of a fitted sampler, and those of its groups where it has them."""
    arrays = {"codes": sampler.counts_.codes, "counts": sampler.counts_.counts}
    if sampler.groups_ is None:
        return arrays
    table = sampler.groups_.table
    return arrays | {"group_codes": table.codes, "group_counts": table.counts}


def restored(sampler: XGSampler, view: TrainingView, arrays: Mapping[str, np.ndarray]) -> XGSampler:
    """The sampler, fitted from what `counted` gave; older files have no groups."""
    by_group = None
    if "group_codes" in arrays:
        by_group = PatternCounts(arrays["group_codes"], arrays["group_counts"])
    return sampler.restore(view, PatternCounts(arrays["codes"], arrays["counts"]), by_group)
