"""Labelled pairs, and the view of the data that was made without knowing their answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xtcl.relations.view import TrainingView

Judge = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Takes query nodes [b]; gives, over the candidates [b, c], I_t(u, v) and which pairs count."""


@dataclass(frozen=True)
class Fold:
    """Pairs (u, v) from `queries` x `candidates` whose I_t(u, v) is known.

    The sampler computes the relations from `view` and asks `judge` which pairs are alike. In
    cross-fitting the view hides what `judge` knows. A node is never paired with itself.
    """

    view: TrainingView
    queries: np.ndarray
    candidates: np.ndarray
    judge: Judge
