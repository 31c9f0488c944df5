"""Patterns and their counts: all that Algorithm 1 needs of the labelled pairs.

The score of a pair depends only on the level it reaches for each relation. Those levels are the
digits of one number, the pair's pattern code, so two pairs with the same code have the same score.
The training set shrinks to a table `counts[pattern, I_t]` of integers, which is the same for any
block size, order of work or device. Pairs that are above for no relation have code 0. They are most
of all pairs, and are counted by subtraction instead of listed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xtcl.distributed import world
from xtcl.errors import UsageError
from xtcl.sampling.stumps import Stumps

MAX_PATTERNS = 2**24
"""Most entries of a table of all patterns: 24 relations with one quantile, 10 with four."""


@dataclass(frozen=True)
class PatternCounts:
    """How often each pattern occurred, with I_t = 0 and with I_t = 1."""

    codes: np.ndarray  # int64 [P], ascending
    counts: np.ndarray  # int64 [P, 2]

    @classmethod
    def summed(cls, codes: np.ndarray, counts: np.ndarray) -> PatternCounts:
        """From counts [n, 2] of codes [n], some of which occur more than once, or none."""
        distinct, where = np.unique(codes, return_inverse=True)
        total = np.zeros((len(distinct), 2), dtype=np.int64)
        np.add.at(total, where, counts)
        return cls(distinct, total)

    def __add__(self, other: PatternCounts) -> PatternCounts:
        codes = np.concatenate([self.codes, other.codes])
        return self.summed(codes, np.concatenate([self.counts, other.counts]))

    def of_all_ranks(self) -> PatternCounts:
        """The sum of the counts of all ranks: integers, so it does not depend on the shares."""
        ranks = world()
        return self.summed(ranks.gather(self.codes), ranks.gather(self.counts))

    def levels(self, num_relations: int, num_quantiles: int) -> np.ndarray:
        """The digits of the codes: the level of each relation, [P, R]."""
        powers = (num_quantiles + 1) ** np.arange(num_relations, dtype=np.int64)
        return np.asarray((self.codes[:, None] // powers) % (num_quantiles + 1))


def num_patterns(num_relations: int, num_quantiles: int) -> int:
    """How many patterns there can be."""
    return int((num_quantiles + 1) ** num_relations)


def check_code_fits(num_relations: int, num_quantiles: int) -> None:
    """Refuse more patterns than a table of their scores may hold."""
    if num_patterns(num_relations, num_quantiles) > MAX_PATTERNS:
        raise UsageError(
            f"{num_relations} relations with {num_quantiles} quantiles give more than "
            f"{MAX_PATTERNS:,} patterns; use fewer of either."
        )


def margin_table(stumps: Stumps, above_only: bool = True) -> np.ndarray:
    """The margin of every pattern code, float64.

    With `above_only` that of code 0, above for no relation, is -inf: no candidate.
    """
    margins = np.array([stumps.base])
    for weight in stumps.weights:  # the first relation is the lowest digit
        margins = (weight[:, None] + margins).ravel()
    if above_only:
        margins[0] = -np.inf
    return margins
