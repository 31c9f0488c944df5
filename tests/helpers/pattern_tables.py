"""The table of patterns of a fold."""

from __future__ import annotations

import numpy as np

from xtcl.relations.rows import RelationRows
from xtcl.sampling.counting import count_groups
from xtcl.sampling.folds import Fold
from xtcl.sampling.patterns import PatternCounts


def count_patterns(fold: Fold, rows: RelationRows, height: int) -> PatternCounts:
    """All queries in one group, in blocks of `height` queries."""
    return count_groups(fold, rows, height, np.zeros(rows.num_nodes, dtype=np.int64))
