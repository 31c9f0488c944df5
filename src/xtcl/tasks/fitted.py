"""What a fit leaves behind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from xtcl.learning.encoders.joined import Joined
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.recipe import Plan

NOTHING = float("-inf")


@dataclass(frozen=True)
class FittedEmbedding:
    """The sampler, its positives, the trained encoder and the embeddings.

    `plan` is the one followed, with the epochs that were trained; `losses` has a curve for each of
    its members. `verdict` is the best of the judge, if there was one, on the last of them.
    """

    sampler: XGSampler
    positives: np.ndarray
    plan: Plan
    encoder: Joined
    embedding: Tensor
    losses: tuple[tuple[float, ...], ...]
    verdict: float = NOTHING
