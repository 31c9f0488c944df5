"""A sparse matrix times dense rows, with a gradient that is one such product too."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from xtcl.relations.sparse import product


def sparse_product(matrix: Tensor, transposed: Tensor, x: Tensor) -> Tensor:
    """`matrix @ x` for a CSR tensor that comes with its transpose, and needs no gradient itself.

    torch would transpose the matrix anew in every backward pass, which takes several times as long
    as the product. Cost O(n h) for n entries, either way.
    """
    result: Tensor = _Product.apply(matrix, transposed, x)  # type: ignore[no-untyped-call]
    return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, x: Tensor) -> Tensor:
        ctx.transposed = transposed
        return product(matrix, x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, product(ctx.transposed, gradients[0])
