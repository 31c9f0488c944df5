"""Early stopping by a score that training does not see."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar

from torch import Tensor

from xtcl.distributed import world
from xtcl.errors import UsageError

EmbeddingScorer = Callable[[Tensor], float]
"""The score of an embedding, from data hidden from everything that made it. Higher is better."""


class EarlyStopping:
    """Scores the embedding every few epochs, and keeps the best one and its epoch.

    Training should stop in two cases:

    - The mean of the latest `num_scores` scores is `max_drop` below the best such mean.
    - There was no gain above `min_gain` for `patience` epochs plus the epochs that led to the last
      gain: slow progress may pause long. On sparse graphs the score drops soon after its best; on
      large ones it was seen to pause for sixty epochs and then to gain another point. It never
      gained two points that way, so a training that is `far_behind` another one, whose best score
      is `best_other`, waits for `patience` epochs only.

    Scores are AUC: a gain is a tenth of a percent.
    """

    min_gain: ClassVar[float] = 0.001
    max_drop: ClassVar[float] = 0.003
    num_scores: ClassVar[int] = 3
    far_behind: ClassVar[float] = 0.02

    def __init__(
        self,
        scorer: EmbeddingScorer,
        every: int = 5,
        patience: int = 25,
        best_other: float = float("-inf"),
    ) -> None:
        if every < 1 or patience < 1:
            raise UsageError(f"every={every} and patience={patience} must be at least 1.")
        self.scorer = scorer
        self.every = every
        self.patience = patience
        self.best_other = best_other
        self.best_score = float("-inf")
        self.best_epoch = 0
        self.embedding: Tensor | None = None
        self._last_gain = (float("-inf"), 0)  # score and epoch
        self._latest: deque[float] = deque(maxlen=self.num_scores)
        self._best_mean = float("-inf")

    def should_stop(self, epoch: int, embed: Callable[[], Tensor]) -> bool:
        """Whether training may stop after `epoch`; `embed` computes the current embedding."""
        if epoch % self.every:
            return False
        embedding = embed()
        # One score for all ranks: they must train for the same number of epochs.
        score = world().broadcast_float(self.scorer(embedding))
        if score > self.best_score:
            self.best_score, self.best_epoch, self.embedding = score, epoch, embedding
        if score > self._last_gain[0] + self.min_gain:
            self._last_gain = (score, epoch)
        is_close = self.best_score >= self.best_other - self.far_behind
        longer = self._last_gain[1] if is_close else 0
        return self._has_dropped(score) or epoch >= self._last_gain[1] + longer + self.patience

    def _has_dropped(self, score: float) -> bool:
        self._latest.append(score)
        if len(self._latest) < self.num_scores:
            return False
        mean = sum(self._latest) / self.num_scores
        self._best_mean = max(self._best_mean, mean)
        return mean < self._best_mean - self.max_drop
