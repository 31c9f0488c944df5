"""The relations' similarities of single pairs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.capped_rows import CappedRows
from xtcl.relations.halving import in_blocks
from xtcl.relations.pattern_rows import PatternRows


def pair_similarities(rows: PatternRows | CappedRows, pairs: np.ndarray, height: int) -> np.ndarray:
    """s_r(u, v) for each pair (u, v) of `pairs` [2, n] and each relation: float32 [n, R].

    `height` nodes at a time, of those that come first in a pair. Exact mode computes their whole
    rows; top-k mode looks at the pairs, or at the best of each row.
    """
    found = np.zeros((pairs.shape[1], len(rows.relations)), dtype=np.float32)
    nodes, row = np.unique(pairs[0], return_inverse=True)
    order = np.argsort(row, kind="stable")

    def similarities(places: Tensor) -> None:
        first, end = int(places[0]), int(places[-1]) + 1
        asked = order[slice(*np.searchsorted(row[order], [first, end]))]
        block, place, partner = (
            torch.from_numpy(part).to(rows.device)
            for part in (nodes[first:end], row[asked] - first, pairs[1, asked])
        )
        for column, relation in enumerate(rows.relations):
            own = rows.similarities(relation, block, place, partner)
            found[asked, column] = own.cpu().numpy()

    for _ in in_blocks(similarities, torch.arange(len(nodes)), height):
        pass
    return found
