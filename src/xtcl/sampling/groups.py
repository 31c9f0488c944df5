"""Counts of patterns by groups of nodes: what an interval around a weight is made from.

The pairs of one node hang together, so it is nodes that are resampled and not pairs. The nodes
whose pairs are counted are dealt into groups, and each group keeps a table of its own: a few
thousand integers, whatever the number of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xtcl.sampling.fold import Fold
from xtcl.sampling.patterns import PatternCounts

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


def deal(folds: Sequence[Fold], seed: int) -> np.ndarray:
    """The group [V] of every node, those that are no query of a fold in the first."""
    queries = np.unique(np.concatenate([fold.queries for fold in folds]))
    group = np.zeros(folds[0].view.num_nodes, dtype=np.int64)
    order = np.random.default_rng([seed, 2]).permutation(queries)
    group[order] = np.arange(len(order)) % GROUPS
    return group
