"""Sparse rows that one relation needs of all nodes before it can give any; ranks share the work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.ranks import ranks


def shared_rows(
    compute: Callable[[Tensor], sp.csr_array], nodes: Tensor, height: int, width: int
) -> sp.csr_array:
    """The rows [n, width] of `nodes`, `height` at a time. Memory: twice that of the rows."""
    everyone = ranks()
    own = everyone.share(nodes)
    blocks = [compute(block) for block in torch.split(own, height)] if len(own) else []
    empty = sp.csr_array((0, width), dtype=np.float32)
    rows = sp.csr_array(sp.vstack([empty, *blocks], format="csr"))
    if everyone.number == 1:
        return rows
    length = everyone.gather(np.diff(rows.indptr).astype(np.int64))
    column = everyone.gather(rows.indices.astype(np.int64))
    start = np.concatenate([[0], np.cumsum(length)])
    return sp.csr_array((everyone.gather(rows.data), column, start), shape=(len(nodes), width))
