"""The first linear layer: attributes, some of them dropped, times weights."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from xtcl.learning.encoders.dropout import dropout
from xtcl.learning.sparse_product import sparse_product
from xtcl.relations.sparse import quiet_sparse

SPARSE = 0.15
"""Share of values other than 0 up to which a CPU is quicker with a sparse matrix: most words are in
few texts, also after one step of smoothing."""


def dropped_product(rows: Tensor, weight: Tensor, share: float, training: bool) -> Tensor:
    """Dropout of `rows` [n, D], then their product with `weight` [h, D] transposed.

    Cost O(n D h), or O(z h) for z values other than 0 where they are few.
    """
    if not rows.is_cpu or rows.requires_grad or _density(rows) > SPARSE:
        return F.linear(dropout(rows, share, training), weight)
    with quiet_sparse():
        kept = dropout(rows.to_sparse_csr(), share, training)
        return sparse_product(kept, kept.t().to_sparse_csr(), weight.T)


def _density(rows: Tensor) -> float:
    return int(rows.count_nonzero()) / max(1, rows.numel())
