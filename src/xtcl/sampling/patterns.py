"""Patterns and their counts: all that Algorithm 1 needs of the labelled pairs.

The score of a pair depends only on the level it reaches for each relation. Those levels are the
digits of one number, the pair's pattern code, so two pairs with the same code have the same score.
The training set shrinks to a table `counts[pattern, I_t]` of integers, which is the same for any
block size, order of work or device. Pairs that are above for no relation have code 0. They are most
of all pairs, and are counted by subtraction instead of listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xtcl.distributed import world
from xtcl.errors import UsageError
from xtcl.relations.blocks import run_in_blocks
from xtcl.relations.rows import RelationRows
from xtcl.relations.sparse import SparseRows
from xtcl.sampling.folds import Fold, LabelledPairs, PairLabeller
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


_ALL = slice(None)


def count_groups(
    fold: Fold,
    rows: RelationRows,
    height: int,
    group: np.ndarray,
    own: slice = _ALL,
    *,
    self_pairs: bool = False,
) -> PatternCounts:
    """The table of one fold, or of its `own` queries, in blocks of `height` queries.

    Each `group` [V] of query nodes is counted by itself, as `GroupCounts` says. With `self_pairs`
    each query is also paired with itself.
    """
    patterns = num_patterns(len(rows.relations), len(rows.quantiles))
    is_whole = np.array_equal(fold.candidates, np.arange(rows.num_nodes))
    candidates = None if is_whole else torch.from_numpy(fold.candidates).to(rows.device)
    queries, groups = torch.from_numpy(fold.queries), torch.from_numpy(group).to(rows.device)
    label_pairs = fold.pair_labels(rows.device)
    counter = PatternCounter(patterns, int(group.max()) + 1, rows.device)
    with rows.over(queries[own], queries) as passing:

        def count(nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            listed = passing.listed(nodes, candidates)
            labelled = label_pairs(nodes, listed.row, listed.node)
            if self_pairs:
                labelled = with_self_pairs(labelled, nodes, listed, label_pairs)
            own_group = groups[nodes]
            keys = pattern_keys(listed.values, listed.row, labelled, own_group, patterns)
            return keys, labelled.totals, own_group

        for counted in run_in_blocks(count, queries[own].to(rows.device), height):
            counter.add(*counted)
    return counter.counts()


def with_self_pairs(
    labelled: LabelledPairs, queries: Tensor, listed: SparseRows, label_pairs: PairLabeller
) -> LabelledPairs:
    """The same labels, with every query [b] paired with itself: its label is I_t(u, u)."""
    own = label_pairs(queries, torch.arange(len(queries), device=queries.device), queries).alike
    itself = queries[listed.row] == listed.node
    totals = labelled.totals + torch.stack([~own, own], dim=1)
    return LabelledPairs(labelled.alike, labelled.counted | itself, totals)


NODE_GROUPS = 60
"""Groups of query nodes. Each has a table of its own: a few thousand integers."""


@dataclass(frozen=True)
class GroupCounts:
    """Counts of patterns by groups of query nodes, from which weights get their intervals.

    The pairs of one node depend on each other, so nodes are resampled and not pairs. All groups
    share one table: in that of group g, g times `patterns` is added to the code of a pattern.
    """

    table: PatternCounts
    patterns: int

    def whole(self) -> PatternCounts:
        """The table of all nodes together."""
        return PatternCounts.summed(self.table.codes % self.patterns, self.table.counts)

    def by_group(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes [P], and their counts [groups, P, 2] in every group that has pairs."""
        group, code = np.divmod(self.table.codes, self.patterns)
        groups, row = np.unique(group, return_inverse=True)
        codes, column = np.unique(code, return_inverse=True)
        counts = np.zeros((len(groups), len(codes), 2), dtype=np.int64)
        counts[row, column] = self.table.counts
        return codes, counts


def assign_groups(folds: Sequence[Fold], seed: int) -> np.ndarray:
    """The group [V] of every node; nodes that are no query of a fold are in the first."""
    queries = np.unique(np.concatenate([fold.queries for fold in folds]))
    group = np.zeros(folds[0].view.num_nodes, dtype=np.int64)
    order = np.random.default_rng([seed, 2]).permutation(queries)
    group[order] = np.arange(len(order)) % NODE_GROUPS
    return group


_MAX_TABLE = 2**24
"""Most entries of a table; where there could be more, the keys that occur are sorted instead."""


NOT_COUNTED = -1
"""The key of pairs that do not count."""


def pattern_keys(
    code: Tensor, row: Tensor, labelled: LabelledPairs, group: Tensor, patterns: int
) -> Tensor:
    """The place of every listed pair, one of 2 `patterns` for each group: int64 [m].

    `row` [m] is the query of each pair, and `group` [b] that of each query.
    """
    key = 2 * (group[row] * patterns + code) + labelled.alike
    return torch.where(labelled.counted, key, NOT_COUNTED)


class PatternCounter:
    """Counts the patterns of the listed pairs, block by block, on the device.

    Listed pairs are few. Each adds 1 to the entry of its group, pattern and label. All others have
    code 0, and are the rest of the totals. Sums of integers are the same in any order, so the
    result does not depend on the device, and a GPU is waited for once, at the end.
    """

    def __init__(self, patterns: int, groups: int, device: torch.device) -> None:
        self._patterns = patterns
        self._totals = torch.zeros(groups, 2, dtype=torch.int64, device=device)
        places = 2 * patterns * groups + 1
        places = places if places <= _MAX_TABLE else 0
        self._table = torch.zeros(places, dtype=torch.int64, device=device)
        self._sorted = [torch.zeros(2, 0, dtype=torch.int64)]

    def add(self, key: Tensor, totals: Tensor, group: Tensor) -> None:
        """Add pairs by their keys, and how many pairs [b, 2] queries of the `group` [b] make."""
        self._totals.index_add_(0, group, totals)
        if len(self._table):
            one = torch.ones_like(self._table[:1])
            self._table.index_add_(0, key - NOT_COUNTED, one.expand(len(key)))
        else:
            self._sorted.append(torch.stack(torch.unique(key, return_counts=True)).cpu())

    def counts(self) -> PatternCounts:
        """The table of all groups, as in `GroupCounts`."""
        table = self._table.cpu()
        place = torch.nonzero(table).flatten()
        in_table = torch.stack([place + NOT_COUNTED, table[place]])
        found = torch.cat([in_table, *self._sorted], dim=1)
        key, times = found[:, found[0] != NOT_COUNTED].numpy()
        counts = np.zeros((len(key), 2), dtype=np.int64)
        counts[np.arange(len(key)), key % 2] = times
        code = key // 2
        totals = self._totals.cpu().numpy()
        group = np.flatnonzero(totals.any(axis=1))
        return PatternCounts.summed(
            np.concatenate([code, code - code % self._patterns, group * self._patterns]),
            np.concatenate([counts, -counts, totals[group]]),
        )
