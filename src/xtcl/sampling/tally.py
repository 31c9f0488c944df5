"""How often each pattern occurs in each group of queries, counted where the pairs are listed.

Pairs with a bit set are few: each adds 1 to the place of its group, pattern and answer. All others
have code 0, and are what is left of the totals. Sums of integers are the same in any order, so
nothing hangs on the device or on who adds first, and a GPU is asked for its counts once, when a
fold is done.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from xtcl.sampling.judges import Answers
from xtcl.sampling.patterns import PatternCounts

MAX_TABLE = 2**24
"""Places of a table; where there could be more, the keys that occur are sorted instead."""
NOWHERE = -1
"""The key of pairs that do not count."""


def tally_keys(code: Tensor, row: Tensor, answers: Answers, group: Tensor, patterns: int) -> Tensor:
    """The place of every listed pair, one of 2 `patterns` for each group: int64 [m].

    `row` [m] is the query of each pair, and `group` [b] that of each query.
    """
    key = 2 * (group[row] * patterns + code) + answers.alike
    return torch.where(answers.counted, key, NOWHERE)


class Tally:
    """Counts of patterns in groups, those of all blocks of a fold."""

    def __init__(self, patterns: int, groups: int, device: torch.device) -> None:
        self._patterns = patterns
        self._totals = torch.zeros(groups, 2, dtype=torch.int64, device=device)
        places = 2 * patterns * groups + 1
        places = places if places <= MAX_TABLE else 0
        self._table = torch.zeros(places, dtype=torch.int64, device=device)
        self._sorted = [torch.zeros(2, 0, dtype=torch.int64)]

    def add(self, key: Tensor, totals: Tensor, group: Tensor) -> None:
        """Add pairs by their keys, and how many pairs [b, 2] queries of the `group` [b] make."""
        self._totals.index_add_(0, group, totals)
        if len(self._table):
            one = torch.ones_like(self._table[:1])
            self._table.index_add_(0, key - NOWHERE, one.expand(len(key)))
        else:
            self._sorted.append(torch.stack(torch.unique(key, return_counts=True)).cpu())

    def counts(self) -> PatternCounts:
        """The table of all groups; the code of a pattern is raised by `patterns` for each group."""
        table = self._table.cpu()
        place = torch.nonzero(table).flatten()
        in_table = torch.stack([place + NOWHERE, table[place]])
        found = torch.cat([in_table, *self._sorted], dim=1)
        key, times = found[:, found[0] != NOWHERE].numpy()
        counts = np.zeros((len(key), 2), dtype=np.int64)
        counts[np.arange(len(key)), key % 2] = times
        code = key // 2
        totals = self._totals.cpu().numpy()
        group = np.flatnonzero(totals.any(axis=1))
        return PatternCounts.summed(
            np.concatenate([code, code - code % self._patterns, group * self._patterns]),
            np.concatenate([counts, -counts, totals[group]]),
        )
