"""What a fitted method says: class probabilities of nodes, or scores of pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NodeAnswer:
    """Class probabilities of every node, [V, C]."""

    probabilities: np.ndarray

    @property
    def predictions(self) -> np.ndarray:
        """The likeliest class code of every node."""
        return np.asarray(self.probabilities.argmax(axis=1))


@dataclass(frozen=True)
class LinkAnswer:
    """A score for any pairs [2, n]: the higher, the likelier a link."""

    score: Callable[[np.ndarray], np.ndarray]


Answer = NodeAnswer | LinkAnswer
