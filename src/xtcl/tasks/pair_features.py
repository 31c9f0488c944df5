"""Node pairs seen through an embedding: inner products, and element-wise products as features."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from xtcl.errors import DataError, first_few
from xtcl.tasks.rows import Floats, Rows, checked_rows

Pairs = NDArray[np.int64]

# Numbers held at once while scoring: 32 MiB a side.
BLOCK = 2**22


def checked_pairs(pairs: ArrayLike, num_nodes: int) -> Pairs:
    """`pairs` as integers [2, n] that name rows of the embedding, or a DataError."""
    columns = np.asarray(pairs)
    if columns.ndim != 2 or len(columns) != 2 or not np.issubdtype(columns.dtype, np.integer):
        raise DataError(
            f"The pairs are {columns.dtype} of shape {columns.shape}; "
            "pass integers of shape (2, n)."
        )
    outside = np.flatnonzero(((columns < 0) | (columns >= num_nodes)).any(axis=0))
    if outside.size:
        raise DataError(
            f"Pairs {first_few(outside)} name a node that the embedding does not have; "
            f"use node numbers from 0 to {num_nodes - 1}."
        )
    return columns.astype(np.int64)


def pair_scores(
    z: Rows,
    pairs: ArrayLike,
    *,
    unit: bool,
    weight: Floats | None = None,
    device: torch.device | None = None,
) -> Floats:
    """sum_j weight_j z_uj z_vj of each pair (weight 1 if None), of rows at unit length if `unit`.

    A pair's score depends neither on its order nor on the pairs around it. Computed on `device`,
    the CPU by default. Cost n d; memory two blocks of rows beside z.
    """
    rows = checked_rows(z, "The embedding", device)
    if weight is not None and len(weight) != rows.shape[1]:
        raise DataError(
            f"The embedding has {rows.shape[1]} columns, but the head was fitted on {len(weight)}; "
            "pass rows from the model the head was fitted with."
        )
    factors = None if weight is None else torch.tensor(weight, device=rows.device)
    scores = [
        (products if factors is None else products.mul_(factors)).sum(dim=1)
        for products in _products(rows, checked_pairs(pairs, len(rows)), unit)
    ]
    return np.asarray(torch.cat(scores).cpu().numpy()) if scores else np.zeros(0)


def pair_features(z: Rows, pairs: ArrayLike, device: torch.device | None = None) -> Tensor:
    """The Hadamard product of both rows at unit length, [n, d], on the device."""
    rows = checked_rows(z, "The embedding", device)
    products = list(_products(rows, checked_pairs(pairs, len(rows)), unit=True))
    return torch.cat(products) if products else rows.new_zeros(0, rows.shape[1]).double()


def _products(rows: Tensor, columns: Pairs, unit: bool) -> Iterator[Tensor]:
    """z_u z_v in float64, block by block of pairs."""
    length = torch.ones(len(rows), 1, dtype=torch.float64, device=rows.device)
    if unit:
        measured = torch.linalg.vector_norm(rows, dim=1, keepdim=True, dtype=torch.float64)
        length = measured.where(measured > 0, length)
    ends = torch.from_numpy(columns).to(rows.device)
    step = max(1, BLOCK // max(1, rows.shape[1]))
    for u, v in (part.unbind() for part in torch.split(ends, step, dim=1) if ends.shape[1]):
        left, right = (rows[node].double().div_(length[node]) for node in (u, v))
        yield left.mul_(right)
