"""Rows of unit length."""

from __future__ import annotations

import torch
from torch import Tensor


def unit_rows(rows: Tensor) -> Tensor:
    """Every row divided by its length; rows of zeros stay as they are.

    `torch.nn.functional.normalize` divides a row of zeros, and with it the gradient that goes
    there, by 1e-12: one such node spoils Adam's running square of the gradient for thousands of
    steps. Here that gradient is the one of the row itself.
    """
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)
