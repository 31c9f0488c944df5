"""From similarities to positives: patterns, boosted stumps, cross-fitting, the best candidates."""

from __future__ import annotations

from xtcl.sampling.positives import Positives
from xtcl.sampling.weights import RelationWeight
from xtcl.sampling.xgsampler import PairExplanation, XGSampler

__all__ = ["PairExplanation", "Positives", "RelationWeight", "XGSampler"]
