"""Node pairs seen through an embedding: inner products, and element-wise products as features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xtcl.errors import DataError, first_few
from xtcl.tasks.rows import checked_rows, unit_rows

Floats = NDArray[np.float64]
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
    z: ArrayLike, pairs: ArrayLike, *, unit: bool, weight: Floats | None = None
) -> Floats:
    """sum_j weight_j z_uj z_vj of each pair (weight 1 if None), of rows at unit length if `unit`.

    A pair's score depends neither on its order nor on the pairs around it. Cost n d; memory one
    block of rows beside z.
    """
    rows = checked_rows(z, "The embedding")
    if weight is not None and len(weight) != rows.shape[1]:
        raise DataError(
            f"The embedding has {rows.shape[1]} columns, but the head was fitted on {len(weight)}; "
            "pass rows from the model the head was fitted with."
        )
    columns = checked_pairs(pairs, len(rows))
    scores = np.empty(columns.shape[1])
    for part, left, right in _blocks(rows, columns, unit):
        left *= right
        if weight is None:
            left.sum(axis=1, out=scores[part])
        else:
            np.einsum("ij,j->i", left, weight, out=scores[part])
    return scores


def pair_features(z: ArrayLike, pairs: ArrayLike) -> Floats:
    """The Hadamard product of both rows at unit length, [n, d]."""
    rows = checked_rows(z, "The embedding")
    columns = checked_pairs(pairs, len(rows))
    features = np.empty((columns.shape[1], rows.shape[1]))
    for part, left, right in _blocks(rows, columns, unit=True):
        np.multiply(left, right, out=features[part])
    return features


def _blocks(
    rows: NDArray[np.floating[Any]], columns: Pairs, unit: bool
) -> Iterator[tuple[slice, Floats, Floats]]:
    step = max(1, BLOCK // max(1, rows.shape[1]))
    for start in range(0, columns.shape[1], step):
        part = slice(start, start + step)
        left, right = rows[columns[0, part]], rows[columns[1, part]]
        if unit:
            yield part, unit_rows(left), unit_rows(right)
        else:
            yield part, left.astype(np.float64), right.astype(np.float64)
