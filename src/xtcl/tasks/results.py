"""What a fitted method says: class probabilities of nodes, or scores of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from xtcl.config import EnsembleConfig
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.sampling.xgsampler import XGSampler


@dataclass(frozen=True)
class NodePredictions:
    """Class probabilities of every node, [V, C]."""

    probabilities: np.ndarray

    @property
    def predictions(self) -> np.ndarray:
        """The likeliest class code of every node."""
        return np.asarray(self.probabilities.argmax(axis=1))


@dataclass(frozen=True)
class LinkScores:
    """A score for any pairs [2, n]: the higher, the likelier a link."""

    score: Callable[[np.ndarray], np.ndarray]


Predictions = NodePredictions | LinkScores


NO_POSITIVES = float("-inf")


@dataclass(frozen=True)
class FittedEmbedding:
    """The sampler, its positives, the trained encoder and the embeddings.

    `plan` is the one followed, with the epochs that were trained; `losses` has a curve for each of
    its members. `verdict` is the best of the judge, if there was one, on the last of them.
    """

    sampler: XGSampler
    positives: np.ndarray
    plan: EnsembleConfig
    encoder: EncoderEnsemble
    embedding: Tensor
    losses: tuple[tuple[float, ...], ...]
    verdict: float = NO_POSITIVES
