"""From similarities to positives: patterns, boosted stumps, cross-fitting, the best candidates."""

from __future__ import annotations

from xtcl.sampling.positives import Positives
from xtcl.sampling.xgsampler import PairExplanation, RelationWeight, XGSampler

__all__ = ["PairExplanation", "Positives", "RelationWeight", "XGSampler"]
