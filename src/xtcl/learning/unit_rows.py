"""Rows of unit length."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def unit_rows(rows: Tensor) -> Tensor:
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
