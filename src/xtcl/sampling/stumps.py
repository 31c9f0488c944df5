r"""Algorithm 1 on counts: boosted stumps with weights shared by all nodes.

For each relation in turn, with the margin :math:`\hat y` reached so far,

.. math:: g = \sigma(\hat y) - y, \qquad h = \sigma(\hat y)(1 - \sigma(\hat y)), \qquad
          w_{r,l} = \frac{-\sum_{(u,v) \in I_{r,l}} g_{u,v}}{\sum_{(u,v) \in I_{r,l}} h_{u,v}
          + \lambda}

where :math:`I_{r,l}` are the pairs at level l of relation r (with one quantile: 0 below, 1 above).
Pairs with the same pattern have the same margin, so the sums run over patterns with their counts:
O(P R) for P patterns, whatever the number of pairs.

The paper starts from :math:`\hat y = 0` and passes once over the relations. Then the weights of the
first relation also include the share of matches (a useless relation placed first gets a weight of
-1.4 with seven classes), and with rare matches one step from 0 cannot go below -2. Starting from
the log-odds of that share, sweeping several times, and keeping constants out of the weights
(`Stumps.centred`) avoids both and costs microseconds. Where matches are rare, as links are, a
Newton step from there overshoots: in a leaf with twenty times the usual share it is +20 where +3 is
right, and the next step is minus the number of its pairs. So a step that increases the loss of its
leaf is halved until it does not (`backtracking`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

_ROUNDING = 1e-12
"""Relative increase of a loss that is rounding: sums of millions of terms are not exact."""


@dataclass(frozen=True)
class Stumps:
    """The fitted weights: `weights[r, l]` is added to the margin of a pair at level l of r."""

    base: float
    weights: np.ndarray  # float64 [R, L + 1]

    def centred(self, levels: np.ndarray, counts: np.ndarray) -> Stumps:
        """The same margins with each relation's weights averaging 0 over the counted pairs.

        Only the sum of all relations' constants is determined; how much of it is in which relation
        depends on the order. Moved into the base, it does not count as importance of a relation. A
        level that no pair has gets weight 0.
        """
        pairs = counts.sum(axis=1)
        weights = np.zeros_like(self.weights)
        base = self.base
        for relation, weight in enumerate(self.weights):
            share = np.bincount(levels[:, relation], weights=pairs, minlength=len(weight))
            constant = float(share @ weight / max(share.sum(), 1))
            weights[relation] = np.where(share > 0, weight - constant, 0.0)
            base += constant
        return Stumps(base, weights)

    def margins(self, levels: np.ndarray) -> np.ndarray:
        """y_hat of patterns given by their levels [P, R]."""
        total = np.full(len(levels), self.base)
        for relation, weight in enumerate(self.weights):
            total += weight[levels[:, relation]]
        return total


def sigmoid(margin: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-margin)), without overflow."""
    return np.asarray(expit(margin))


def prior_log_odds(counts: np.ndarray) -> float:
    """Log-odds of a match among all pairs, kept finite by half a pair on either side."""
    others, matches = counts.sum(axis=0)
    return float(np.log((matches + 0.5) / (others + 0.5)))


def with_prior(
    levels: np.ndarray, counts: np.ndarray, level: int, pairs: int
) -> tuple[np.ndarray, np.ndarray]:
    """Patterns and counts with `pairs` more for each relation, half of them alike.

    They are at `level` of this relation and below all others: a prior of each relation, which
    matters less the more pairs are counted.
    """
    if not pairs:
        return levels, counts
    single = level * np.eye(levels.shape[1], dtype=levels.dtype)
    halves = np.full((len(single), 2), pairs / 2)
    return np.concatenate([levels, single]), np.concatenate([counts, halves])


def precision(levels: np.ndarray, counts: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray]:
    """P(I_t = 1 | the relation is at `level`) and the number of such pairs, for each relation."""
    at_level = (levels == level).astype(np.int64)
    others, matches = (at_level.T @ counts).T
    support = others + matches
    return matches / np.maximum(support, 1), support


def training_order(precisions: np.ndarray, support: np.ndarray) -> list[int]:
    """Relations by precision, descending; those never above come last, ties stay as listed."""
    return sorted(range(len(precisions)), key=lambda r: (support[r] == 0, -precisions[r]))


def fit_stumps(
    levels: np.ndarray,
    counts: np.ndarray,
    *,
    num_levels: int,
    order: Sequence[int],
    base: float = 0.0,
    sweeps: int = 1,
    penalty: float = 1.0,
    backtracking: bool = False,
) -> Stumps:
    """Fit the weights on patterns `levels` [P, R] that occurred `counts` [P, 2] times."""
    weights = np.zeros((levels.shape[1], num_levels))
    pairs = counts.sum(axis=1)
    margin = np.full(len(levels), base)
    for _ in range(sweeps):
        for relation in order:
            chance = sigmoid(margin)
            gradient = pairs * chance - counts[:, 1]
            curvature = pairs * chance * (1.0 - chance)
            leaf = levels[:, relation]
            down = np.bincount(leaf, weights=gradient, minlength=num_levels)
            scale = np.bincount(leaf, weights=curvature, minlength=num_levels) + penalty
            step = np.divide(-down, scale, out=np.zeros(num_levels), where=scale > 0)
            if backtracking:
                step = _without_overshoot(step, margin, counts, leaf)
            weights[relation] += step
            margin = margin + step[leaf]
    return Stumps(base, weights)


def _without_overshoot(
    step: np.ndarray, margin: np.ndarray, counts: np.ndarray, leaf: np.ndarray
) -> np.ndarray:
    """The steps of the leaves, halved until none increases the loss of its leaf."""
    pairs, matches = counts.sum(axis=1), counts[:, 1]

    def losses(at: np.ndarray) -> np.ndarray:
        each = pairs * np.logaddexp(0.0, at) - matches * at
        return np.bincount(leaf, weights=each, minlength=len(step))

    most = losses(margin) * (1 + _ROUNDING)
    while (worse := losses(margin + step[leaf]) > most).any():
        step = np.where(worse, step / 2, step)
    return step
