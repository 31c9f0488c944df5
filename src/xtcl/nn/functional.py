"""Dropout that is quick on a CPU too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from xtcl.relations.sparse import product, quiet_sparse


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


SPARSE = 0.15
"""Share of values other than 0 up to which a CPU is quicker with a sparse matrix: most words are in
few texts, also after one step of smoothing."""


def sparse_dropout_linear(rows: Tensor, weight: Tensor, share: float, training: bool) -> Tensor:
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


T = TypeVar("T")


class TensorCache(Generic[T]):
    """The latest result, given again as long as it is asked for with the same tensors.

    The same are the same objects that nobody has written to since. torch counts writes in place;
    only those that bypass it (through a NumPy view of the memory, through `.data`) stay unseen.
    Copies and pickles remember nothing: the data of a fit are no part of its model.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Let go of the result and of the tensors it was made of."""
        self._tensors: tuple[Tensor, ...] = ()
        self._state: object = None
        self._result: T | None = None

    def __reduce__(self) -> tuple[type[TensorCache[T]], tuple[()]]:
        return type(self), ()

    def get(self, compute: Callable[[], T], tensors: tuple[Tensor, ...], other: object = None) -> T:
        """`compute()`, which must depend on nothing but `tensors` and `other`."""
        # What inference mode makes is of no use to a later backward pass.
        state = (other, torch.is_inference_mode_enabled(), [_writes(each) for each in tensors])
        same = len(tensors) == len(self._tensors) and all(
            tensor is known for tensor, known in zip(tensors, self._tensors, strict=True)
        )
        if self._result is None or not same or state != self._state:
            self.forget()  # before there is a second result beside it
            self._result = compute()
            self._tensors, self._state = tensors, state
        return self._result


def clear_tensor_caches(module: nn.Module) -> None:
    """Let `module` and all its parts go of what they remember."""
    for part in module.modules():
        for value in vars(part).values():
            if isinstance(value, TensorCache):
                value.forget()


def _writes(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # torch does not count for these


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


def normalize(rows: Tensor) -> Tensor:
    """Every row divided by its length; rows of zeros stay as they are.

    `torch.nn.functional.normalize` divides a row of zeros, and with it the gradient that goes
    there, by 1e-12: one such node spoils Adam's running square of the gradient for thousands of
    steps. Here that gradient is the one of the row itself. Differentiable once, not twice.
    """
    units: Tensor = _UnitRows.apply(rows)  # type: ignore[no-untyped-call]
    return units


class _UnitRows(torch.autograd.Function):
    r"""The gradient of :math:`y = x / |x|` is :math:`(g - y \, (y \cdot g)) / |x|`.

    That is four passes over the rows, where torch, which knows only the steps of y, makes nine.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        length = torch.where(length > 0, length, 1.0)
        units = rows / length
        ctx.save_for_backward(units, length)
        return units

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        units, length = ctx.saved_tensors
        along = (units * gradient).sum(dim=1, keepdim=True)
        result: Tensor = torch.addcmul(gradient, units, along, value=-1.0).div_(length)
        return result
