"""Labelled pairs, and the view of the data that was made without knowing their answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from xtcl.relations.view import TrainingView
from xtcl.sampling.judges import Judge


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

    def whole(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """I_t(u, v) of `queries` with all candidates, and which pairs count: each bool [b, c]."""
        shape = len(queries), len(self.candidates)
        row = np.repeat(np.arange(shape[0]), shape[1])
        node = np.tile(self.candidates, shape[0])
        asked = (torch.from_numpy(part) for part in (queries, row, node))
        answers = self.judge(torch.device("cpu"))(*asked)
        return answers.alike.view(shape).numpy(), answers.counted.view(shape).numpy()
