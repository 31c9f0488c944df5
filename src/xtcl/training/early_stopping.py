"""Early stopping by a judge that sees what training does not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from torch import Tensor

from xtcl.distributed import world
from xtcl.errors import UsageError

Scorer = Callable[[Tensor], float]
"""How good an embedding is, by data hidden from everything that made it; higher is better."""


LEAST_GAIN = 0.001
"""What counts as progress: a tenth of a percent of AUC."""


FALL = 0.003
"""What counts as a fall, by the mean of the latest LOOKS verdicts: one alone may be a chance."""


LOOKS = 3


BEHIND = 0.02
"""How far below a rival a training is given up at its first long pause."""


class EarlyStopping:
    """Asks a judge every few epochs, and keeps the best embedding with the epochs that led to it.

    Training has been seen enough of when its verdicts have fallen (FALL), and when the last
    progress worth the name (LEAST_GAIN) lies `patience` epochs and as many as led to it back: what
    comes slowly may pause long. On sparse graphs a sharp loss falls soon after its best; on large
    ones it was seen to pause for sixty epochs and then to gain another point. Two points it never
    gained that way: what is so far (BEHIND) from `to_beat`, the best verdict on another training,
    waits for `patience` epochs only.
    """

    def __init__(
        self,
        judge: Scorer,
        every: int = 5,
        patience: int = 25,
        to_beat: float = float("-inf"),
    ) -> None:
        if every < 1 or patience < 1:
            raise UsageError(f"every={every} and patience={patience} must be at least 1.")
        self.judge = judge
        self.every = every
        self.patience = patience
        self.to_beat = to_beat
        self.best = float("-inf")
        self.epochs = 0
        self.embedding: Tensor | None = None
        self._progress = (float("-inf"), 0)
        self._latest: deque[float] = deque(maxlen=LOOKS)
        self._best_mean = float("-inf")

    def seen_enough(self, epoch: int, embed: Callable[[], Tensor]) -> bool:
        """Whether training may stop after `epoch`; `embed` gives the embedding of now."""
        if epoch % self.every:
            return False
        embedding = embed()
        verdict = world().agreed(self.judge(embedding))  # or ranks might train for unequal times
        if verdict > self.best:
            self.best, self.epochs, self.embedding = verdict, epoch, embedding
        if verdict > self._progress[0] + LEAST_GAIN:
            self._progress = (verdict, epoch)
        slow = self._progress[1] if self.best >= self.to_beat - BEHIND else 0
        return self._fallen(verdict) or epoch >= self._progress[1] + slow + self.patience

    def _fallen(self, verdict: float) -> bool:
        self._latest.append(verdict)
        if len(self._latest) < LOOKS:
            return False
        mean = sum(self._latest) / LOOKS
        self._best_mean = max(self._best_mean, mean)
        return mean < self._best_mean - FALL
