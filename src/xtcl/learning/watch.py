"""Early stopping by a judge that sees what training does not."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from xtcl.errors import UsageError

Judge = Callable[[Tensor], float]
"""How good an embedding is, by data hidden from everything that made it; higher is better."""


LEAST_GAIN = 0.001
"""What counts as progress: a tenth of a percent of AUC."""


class Watch:
    """Asks a judge every few epochs, and keeps the best embedding with the epochs that led to it.

    Training has been seen enough of when the last progress worth the name (LEAST_GAIN) lies
    `patience` epochs and half of its own back: a slow training is given more time than a quick one.
    """

    def __init__(self, judge: Judge, every: int = 5, patience: int = 10) -> None:
        if every < 1 or patience < 1:
            raise UsageError(f"every={every} and patience={patience} must be at least 1.")
        self.judge = judge
        self.every = every
        self.patience = patience
        self.best = float("-inf")
        self.epochs = 0
        self.embedding: Tensor | None = None
        self._progress = (float("-inf"), 0)

    def seen_enough(self, epoch: int, embed: Callable[[], Tensor]) -> bool:
        """Whether training may stop after `epoch`; `embed` gives the embedding of now."""
        if epoch % self.every:
            return False
        embedding = embed()
        verdict = self.judge(embedding)
        if verdict > self.best:
            self.best, self.epochs, self.embedding = verdict, epoch, embedding
        if verdict > self._progress[0] + LEAST_GAIN:
            self._progress = (verdict, epoch)
        return epoch >= 1.5 * self._progress[1] + self.patience
