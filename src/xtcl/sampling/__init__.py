"""From similarities to positives, in the order of a fit.

- `xgsampler` is the sampler; `inputs` reads what its `fit` is given.
- `folds` hides labels in turn and says which labelled pairs are alike; `counting` counts the
  `patterns` of levels among them.
- `weights` fits the relations to these counts, with the `stumps` of Algorithm 1 and the intervals
  of `bootstrap`.
- `positives` ranks the `candidates` of every node. A strategy (`strategy`, `strategies`) decides
  which of them are positives, within a `pair_filter`; training draws from `positive_lists`.
- `probabilities` and `explanation` give f_u(v) of pairs, and the weights behind it.
- `partial` keeps the work inside a stage that is interrupted.
"""

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
