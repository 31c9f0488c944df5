"""The relations' similarities of single pairs."""

from __future__ import annotations

import numpy as np
import torch

from xtcl.relations.pattern_rows import PatternRows


def pair_similarities(rows: PatternRows, pairs: np.ndarray, height: int) -> np.ndarray:
    """s_r(u, v) for each pair (u, v) of `pairs` [2, n] and each relation: float32 [n, R].

    Whole rows are computed, `height` nodes at a time, for as many nodes as come first in a pair.
    Cost: that of the rows, and O(n R) memory.
    """
    found = np.zeros((pairs.shape[1], len(rows.relations)), dtype=np.float32)
    nodes, row = np.unique(pairs[0], return_inverse=True)
    order = np.argsort(row, kind="stable")
    for first in range(0, len(nodes), height):
        start, end = np.searchsorted(row[order], [first, first + height])
        asked = order[start:end]
        block = torch.from_numpy(nodes[first : first + height])
        place = torch.from_numpy(row[asked] - first).to(rows.device)
        partner = torch.from_numpy(pairs[1, asked]).to(rows.device)
        for relation, similarities in enumerate(rows.similarities(block)):
            found[asked, relation] = similarities[place, partner].cpu().numpy()
    return found
