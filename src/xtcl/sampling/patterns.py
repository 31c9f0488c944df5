"""Patterns and their counts: all that Algorithm 1 needs to know about the labelled pairs.

Tied stumps see a pair only through the level it reaches for each relation. Those levels are the
digits of one number, the pair's pattern code; two pairs with the same code are the same to the
sampler. So the training set shrinks to a table `counts[pattern, I_t]` of integers, which is the
same for any block size, order of work or device. Pairs that are above for no relation have code 0
and are most of all pairs: they are counted by subtraction and never listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xtcl.distributed import world
from xtcl.errors import UsageError
from xtcl.relations.rows import DenseRows
from xtcl.sampling.stumps import Stumps

MAX_PATTERNS = 2**24
"""What a table of all patterns may hold: 24 relations with one quantile, 10 with four."""


@dataclass(frozen=True)
class PatternCounts:
    """How often each pattern occurred, with I_t = 0 and with I_t = 1."""

    codes: np.ndarray  # int64 [P], increasing
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
        """The sum of what all ranks have counted: integers, so nothing hangs on who counted."""
        everyone = world()
        return self.summed(everyone.gather(self.codes), everyone.gather(self.counts))

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


def margin_table(stumps: Stumps) -> np.ndarray:
    """The margin of every pattern code, float64; -inf for code 0, for which nothing speaks."""
    margins = np.array([stumps.base])
    for weight in stumps.weights:  # the first relation is the lowest digit
        margins = (weight[:, None] + margins).ravel()
    margins[0] = -np.inf
    return margins


def looked_up(table: Tensor, codes: Tensor) -> Tensor:
    """The entry of `table` [P] at each of `codes`; twice as quick as `table[codes]` on a CPU."""
    return table.index_select(0, codes.reshape(-1).int()).view(codes.shape)


def encode(levels: Iterable[Tensor], num_relations: int, num_quantiles: int) -> Tensor:
    """Pattern codes [b, c] of pairs whose levels come relation by relation, each [b, c].

    Codes are as narrow as the number of patterns allows: they are most of the memory traffic.
    """
    base = num_quantiles + 1
    codes: Tensor | None = None
    for position, level in enumerate(levels):
        if codes is None:
            codes = level.to(_code_type(base**num_relations))
        else:
            codes.add_(level, alpha=base**position)
    if codes is None:
        raise UsageError("A pattern needs at least one relation.")
    return codes


def _code_type(patterns: int) -> torch.dtype:
    return torch.int16 if patterns <= torch.iinfo(torch.int16).max else torch.int32


def pattern_codes(rows: DenseRows, nodes: Tensor, columns: Tensor | None = None) -> Tensor:
    """Code of each pair [b, c], for all columns or the given ones."""
    levels = (level if columns is None else level[:, columns] for level in rows.levels(nodes))
    return encode(levels, len(rows.relations), len(rows.quantiles))
