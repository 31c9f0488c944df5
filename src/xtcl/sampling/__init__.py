"""From similarities to positives, in the order of a fit.

- `xgsampler` is the sampler; `inputs` reads what its `fit` is given.
- `folds` hides labels in turn and says which labelled pairs are alike; `patterns` counts the
  patterns of levels among them.
- `weights` fits the relations to these counts, with the `stumps` of Algorithm 1, and says how sure
  the weights are.
- `positives` ranks the `candidates` of every node, and says which type of positives is which. A
  strategy decides which nodes are positives: `strategy` is the interface, `strategies` are ours.
- `probabilities` gives f_u(v) of pairs, and the weights behind it.
- `partial` keeps the work inside a stage that is interrupted.
"""

from __future__ import annotations

from xtcl.sampling.positives import Positives
from xtcl.sampling.probabilities import PairExplanation
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
