"""The table of patterns of a fold, a block of query rows at a time."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.capped_rows import CappedRows
from xtcl.relations.halving import in_blocks
from xtcl.relations.pattern_rows import PatternRows
from xtcl.sampling.fold import Fold
from xtcl.sampling.listed import listed_pairs
from xtcl.sampling.patterns import PatternCounts, num_patterns
from xtcl.sampling.tally import Tally, tally_keys

ALL = slice(None)


def count_patterns(
    fold: Fold, rows: PatternRows | CappedRows, height: int, own: slice = ALL
) -> PatternCounts:
    """The table of one fold, or of its `own` queries, `height` query rows at a time."""
    return count_groups(fold, rows, height, np.zeros(rows.num_nodes, dtype=np.int64), own)


def count_groups(
    fold: Fold,
    rows: PatternRows | CappedRows,
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
    tally = Tally(patterns, int(group.max()) + 1, rows.device)
    with rows.over(queries[own], queries) as passing:

        def count(nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            row, node, code = listed_pairs(passing, nodes, candidates)
            answers = judge(nodes, row, node)
            own_group = groups[nodes]
            return tally_keys(code, row, answers, own_group, patterns), answers.totals, own_group

        for counted in in_blocks(count, queries[own].to(rows.device), height):
            tally.add(*counted)
    return tally.counts()
