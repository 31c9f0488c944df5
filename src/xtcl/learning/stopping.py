"""When to stop, judged by the training loss alone.

On small graphs accuracy peaks after ten to forty epochs and then falls by one to three points while
the loss goes on falling slowly: the embedding has learned what the positives share and begins to
learn them by heart. That slow tail is what the rule cuts off. It never sees a label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xtcl.errors import UsageError


@dataclass(frozen=True)
class Plateau:
    """Stop when the mean loss of `window` epochs is hardly below that of the window before.

    A relative fall of `least_gain` or less does not count as progress.
    """

    window: int = 5
    least_gain: float = 0.02

    def __post_init__(self) -> None:
        if self.window < 1:
            raise UsageError(f"window={self.window} must be at least 1 epoch.")

    def reached(self, losses: Sequence[float]) -> bool:
        """Whether training with these losses so far has come to its plateau."""
        if len(losses) < 2 * self.window:
            return False
        latest = sum(losses[-self.window :]) / self.window
        before = sum(losses[-2 * self.window : -self.window]) / self.window
        return before - latest <= self.least_gain * abs(before)
