"""From similarities to positives: patterns, boosted stumps, cross-fitting, strategies."""

from __future__ import annotations

from xtcl.sampling.explanation import PairExplanation
from xtcl.sampling.positives import Positives
from xtcl.sampling.strategies import (
    AllLabelPositives,
    LearnedPositives,
    MixedPositives,
    NaivePositives,
    PositiveSource,
    PositiveStrategy,
    PositiveTable,
    SameLabelPositives,
    UniformPositives,
)
from xtcl.sampling.weights import RelationWeight
from xtcl.sampling.xgsampler import XGSampler

__all__ = [
    "AllLabelPositives",
    "LearnedPositives",
    "MixedPositives",
    "NaivePositives",
    "PairExplanation",
    "PositiveSource",
    "PositiveStrategy",
    "PositiveTable",
    "Positives",
    "RelationWeight",
    "SameLabelPositives",
    "UniformPositives",
    "XGSampler",
]
