"""Dropout that is quick on a CPU too."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from xtcl.relations.sparse import quiet_sparse


def dropout(x: Tensor, share: float, training: bool) -> Tensor:
    """As torch's: every number is 0 with the chance `share`, and the others are scaled up.

    On a CPU torch draws a coin for each number, which took twice as long as all the rest of this
    (37 of 39 ms for the attributes of Cora against 11 of 17). A sparse matrix (CSR), which has no
    gradient here, keeps its pattern.
    """
    if x.layout == torch.sparse_csr:
        values = dropout(x.values(), share, training)
        with quiet_sparse():
            return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, size=x.shape)
    if not training or share == 0 or not x.is_cpu:
        return F.dropout(x, share, training)
    kept = torch.rand_like(x) >= share
    return x * kept.to(x.dtype).div_(1 - share)
