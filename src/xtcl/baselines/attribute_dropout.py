"""Dropout of attributes that are stored sparse or dense."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from xtcl.relations.sparse import quiet_sparse


def drop_values(x: Tensor, share: float) -> Tensor:
    """Dropout of attributes [V, D], sparse (CSR) or dense, which need no gradient."""
    if x.layout == torch.strided:
        return F.dropout(x, share)
    with quiet_sparse():
        return torch.sparse_csr_tensor(
            x.crow_indices(), x.col_indices(), F.dropout(x.values(), share), size=x.shape
        )
