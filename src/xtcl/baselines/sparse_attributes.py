"""Attributes as a sparse matrix where few of them are not 0."""

from __future__ import annotations

from torch import Tensor

from xtcl.relations.sparse import quiet_sparse

SPARSE_BELOW = 0.05
"""Share of values other than 0: Cora and CiteSeer have 0.01, PubMed 0.1, Photo and Computers 0.35.

As a sparse matrix the words of Cora and CiteSeer take a tenth of the time in a product with the
weights of a layer, forth and back.
"""


def sparse_if_few(x: Tensor) -> Tensor:
    """`x` [n, D] as CSR if few of its values are not 0, otherwise `x` itself."""
    if x.count_nonzero() >= SPARSE_BELOW * x.numel():
        return x
    with quiet_sparse():
        return x.contiguous().to_sparse_csr()
