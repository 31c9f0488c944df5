"""What a fitted method predicts: class probabilities of nodes, or scores of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from xtcl.config import EnsembleConfig
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.sampling.xgsampler import XGSampler

if TYPE_CHECKING:
    from xtcl.tasks.blend import Blend


class NodePredictions:
    """Class probabilities [V, C] of the nodes."""

    choice: Blend | None = None
    """What hidden labels chose, where they did."""
    class_factors: np.ndarray | None = None
    """The class with the largest product of probability and factor is predicted; None: all 1."""

    def __init__(self, probabilities: np.ndarray) -> None:
        self._table = probabilities

    def classes_of(self, probabilities: np.ndarray) -> np.ndarray:
        """The class code that each row [n, C] of probabilities predicts."""
        factors = 1.0 if self.class_factors is None else self.class_factors
        return np.asarray((factors * probabilities).argmax(axis=1))

    @property
    def probabilities(self) -> np.ndarray:
        """The whole table."""
        return self._table

    @property
    def predictions(self) -> np.ndarray:
        """The predicted class code of every node."""
        return self.classes_of(self.probabilities)

    def of(self, nodes: np.ndarray) -> np.ndarray:
        """A copy of the rows [n, C] of some nodes."""
        return np.asarray(self.probabilities[nodes])


class ComputedPredictions(NodePredictions):
    """Class probabilities that `compute(rows)` gives for a slice of the nodes, when needed.

    Rows are computed in blocks of fixed place and size, so that they have the same bits alone and
    in the whole table. The table is kept once it was computed; blocks of it are not.
    """

    def __init__(
        self, compute: Callable[[slice], np.ndarray], num_nodes: int, block_rows: int
    ) -> None:
        self._compute, self._num_nodes, self._block_rows = compute, num_nodes, block_rows
        self._whole: np.ndarray | None = None

    @property
    def probabilities(self) -> np.ndarray:
        """The whole table."""
        if self._whole is None:
            self._whole = self._blocks(np.arange(self._num_blocks))
        return self._whole

    def of(self, nodes: np.ndarray) -> np.ndarray:
        """A copy of the rows [n, C] of some nodes; no more than their blocks are computed."""
        blocks, place = np.unique(nodes // self._block_rows, return_inverse=True)
        if self._whole is not None or len(blocks) == self._num_blocks:
            return super().of(nodes)
        rows: np.ndarray = self._blocks(blocks)
        return np.asarray(rows[place * self._block_rows + nodes % self._block_rows])

    @property
    def _num_blocks(self) -> int:
        return -(-self._num_nodes // self._block_rows)

    def _blocks(self, numbers: np.ndarray) -> np.ndarray:
        """The rows of the blocks, one after the other."""
        starts = (numbers * self._block_rows).tolist()
        slices = [slice(start, start + self._block_rows) for start in starts] or [slice(0)]
        return np.concatenate([self._compute(rows) for rows in slices])


@dataclass(frozen=True)
class LinkScores:
    """A score for any pairs [2, n]: the higher, the more likely a link.

    For a fit of XTCL it is `SignalHead.score` of `xtcl.tasks.link_head`.
    """

    score: Callable[[np.ndarray], np.ndarray]


Predictions = NodePredictions | LinkScores


NO_SCORE = float("-inf")


@dataclass(frozen=True)
class FittedEmbedding:
    """The sampler, its positives, the trained encoder and the embeddings.

    `ensemble` has the epochs that were trained; `losses` has a curve for each of its encoders.
    `validation_score` is the best score of the last one, if there was a scorer.
    """

    sampler: XGSampler
    positives: np.ndarray
    ensemble: EnsembleConfig
    encoder: EncoderEnsemble
    embedding: Tensor
    losses: tuple[tuple[float, ...], ...]
    validation_score: float = NO_SCORE
    widths: tuple[int, ...] = ()
    """Columns of each encoder, before those of the attributes; known during a fit."""
