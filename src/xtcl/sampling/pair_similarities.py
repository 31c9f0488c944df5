"""The relations' similarities of single pairs."""

from __future__ import annotations

import numpy as np
import torch

from xtcl.relations.capped_rows import CappedRows
from xtcl.relations.pattern_rows import PatternRows


def pair_similarities(rows: PatternRows | CappedRows, pairs: np.ndarray, height: int) -> np.ndarray:
    """s_r(u, v) for each pair (u, v) of `pairs` [2, n] and each relation: float32 [n, R].

    `height` nodes at a time, of those that come first in a pair. Exact mode computes their whole
    rows; top-k mode looks at the pairs, or at the best of each row.
    """
    found = np.zeros((pairs.shape[1], len(rows.relations)), dtype=np.float32)
    nodes, row = np.unique(pairs[0], return_inverse=True)
    order = np.argsort(row, kind="stable")
    for first in range(0, len(nodes), height):
        start, end = np.searchsorted(row[order], [first, first + height])
        asked = order[start:end]
        block, place, partner = (
            torch.from_numpy(part).to(rows.device)
            for part in (nodes[first : first + height], row[asked] - first, pairs[1, asked])
        )
        for column, relation in enumerate(rows.relations):
            similarities = rows.similarities(relation, block, place, partner)
            found[asked, column] = similarities.cpu().numpy()
    return found
