"""The levels that the pairs of capped lists reach, when there are several quantiles.

A list holds the above set of the lowest quantile, cut to the `cap` best. Of a higher quantile with
rank k from the top, the k-th largest of the list is the threshold; where the list is shorter, be it
cut or for want of positive similarities, all of it is above. So a level counts the quantiles of
which a pair is in the capped above set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from xtcl.relations.nearest.cut import TINY, floors, rows_of
from xtcl.relations.thresholds import rank_from_top


def list_places(quantiles: Sequence[float], cap: int, num_nodes: int) -> list[int]:
    """Which of a list, counted from the largest as 1, is the least above for each quantile."""
    return [min(max(rank_from_top(q, num_nodes - 1), 1), cap) for q in quantiles]


def list_thresholds(lists: sp.csr_array, quantiles: Sequence[float], cap: int) -> np.ndarray:
    """The least that is above in each row of `lists` [b, V], for each quantile: float32 [b, L]."""
    places = list_places(quantiles, cap, lists.shape[1])
    return np.stack([floors(lists, place) for place in places], axis=1)


def list_levels(lists: sp.csr_array, quantiles: Sequence[float], cap: int) -> np.ndarray:
    """How many quantiles each entry is above for, uint8 [m]; the lowest one's are all."""
    reached = np.ones(lists.nnz, dtype=np.uint8)
    if len(quantiles) > 1:
        row = rows_of(lists)
        for floor in list_thresholds(lists, quantiles[1:], cap).T:
            reached += lists.data >= np.maximum(floor, TINY)[row]
    return reached
