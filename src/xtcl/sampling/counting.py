"""The table of patterns of a fold, a block of query rows at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.blocks import run_in_blocks
from xtcl.relations.rows import DenseRows
from xtcl.relations.topk_rows import TopKRows
from xtcl.sampling.candidates import listed_pairs
from xtcl.sampling.folds import Fold, LabelledPairs
from xtcl.sampling.patterns import PatternCounts, num_patterns

ALL = slice(None)


def count_patterns(
    fold: Fold, rows: DenseRows | TopKRows, height: int, own: slice = ALL
) -> PatternCounts:
    """The table of one fold, or of its `own` queries, `height` query rows at a time."""
    return count_groups(fold, rows, height, np.zeros(rows.num_nodes, dtype=np.int64), own)


def count_groups(
    fold: Fold,
    rows: DenseRows | TopKRows,
    height: int,
    group: np.ndarray,
    own: slice = ALL,
) -> PatternCounts:
    """The same for each `group` [V] of query nodes, as the table of `GroupCounts`."""
    patterns = num_patterns(len(rows.relations), len(rows.quantiles))
    everyone = np.array_equal(fold.candidates, np.arange(rows.num_nodes))
    candidates = None if everyone else torch.from_numpy(fold.candidates).to(rows.device)
    queries, groups = torch.from_numpy(fold.queries), torch.from_numpy(group).to(rows.device)
    judge = fold.judge(rows.device)
    tally = PatternCounter(patterns, int(group.max()) + 1, rows.device)
    with rows.over(queries[own], queries) as passing:

        def count(nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            row, node, code = listed_pairs(passing, nodes, candidates)
            answers = judge(nodes, row, node)
            own_group = groups[nodes]
            return pattern_keys(code, row, answers, own_group, patterns), answers.totals, own_group

        for counted in run_in_blocks(count, queries[own].to(rows.device), height):
            tally.add(*counted)
    return tally.counts()


# Counts of patterns by groups of nodes: what an interval around a weight is made from.
#
# The pairs of one node hang together, so it is nodes that are resampled and not pairs. The nodes
# whose pairs are counted are dealt into groups, and each group keeps a table of its own: a few
# thousand integers, whatever the number of nodes.


GROUPS = 60


@dataclass(frozen=True)
class GroupCounts:
    """Tables of all groups in one: the code of a pattern is raised by `patterns` for each group."""

    table: PatternCounts
    patterns: int

    def whole(self) -> PatternCounts:
        """The table of all nodes together."""
        return PatternCounts.summed(self.table.codes % self.patterns, self.table.counts)

    def parted(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes [P], and their counts [groups, P, 2] in every group that has pairs."""
        group, code = np.divmod(self.table.codes, self.patterns)
        groups, row = np.unique(group, return_inverse=True)
        codes, column = np.unique(code, return_inverse=True)
        counts = np.zeros((len(groups), len(codes), 2), dtype=np.int64)
        counts[row, column] = self.table.counts
        return codes, counts


def assign_groups(folds: Sequence[Fold], seed: int) -> np.ndarray:
    """The group [V] of every node, those that are no query of a fold in the first."""
    queries = np.unique(np.concatenate([fold.queries for fold in folds]))
    group = np.zeros(folds[0].view.num_nodes, dtype=np.int64)
    order = np.random.default_rng([seed, 2]).permutation(queries)
    group[order] = np.arange(len(order)) % GROUPS
    return group


# How often each pattern occurs in each group of queries, counted where the pairs are listed.
#
# Pairs with a bit set are few: each adds 1 to the place of its group, pattern and answer. All
# others
# have code 0, and are what is left of the totals. Sums of integers are the same in any order, so
# nothing hangs on the device or on who adds first, and a GPU is asked for its counts once, when a
# fold is done.


MAX_TABLE = 2**24
"""Places of a table; where there could be more, the keys that occur are sorted instead."""


NOWHERE = -1
"""The key of pairs that do not count."""


def pattern_keys(
    code: Tensor, row: Tensor, answers: LabelledPairs, group: Tensor, patterns: int
) -> Tensor:
    """The place of every listed pair, one of 2 `patterns` for each group: int64 [m].

    `row` [m] is the query of each pair, and `group` [b] that of each query.
    """
    key = 2 * (group[row] * patterns + code) + answers.alike
    return torch.where(answers.counted, key, NOWHERE)


class PatternCounter:
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
