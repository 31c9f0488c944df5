"""The table of patterns of a fold."""

from __future__ import annotations

import numpy as np

from xtcl.relations.rows import RelationRows
from xtcl.sampling.folds import Fold
from xtcl.sampling.patterns import PatternCounts, count_groups


def count_patterns(fold: Fold, rows: RelationRows, height: int) -> PatternCounts:
    """All queries in one group, in blocks of `height` queries."""
    return count_groups(fold, rows, height, np.zeros(rows.num_nodes, dtype=np.int64))
