"""Rows of an embedding made ready for a head: checked, centred, brought to unit length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xtcl.errors import DataError, first_few

Floats = NDArray[np.float64]

# Lengths below this share of what was subtracted are rounding, not signal; scaled to unit length
# they would turn a constant embedding into noise.
ROUNDING = 1e-12


def checked_rows(values: ArrayLike, what: str) -> NDArray[np.floating[Any]]:
    """`values` as a matrix of finite floats, of its own precision, or a DataError."""
    rows = np.asarray(values)
    if rows.ndim != 2:
        raise DataError(f"{what} has {rows.ndim} dimensions; pass a matrix with one row per node.")
    if not np.issubdtype(rows.dtype, np.floating):
        rows = rows.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise DataError(
            f"{what} holds values that are not finite, in rows {first_few(bad)}. "
            "Look for a diverged training run, or for missing attributes in those rows."
        )
    return rows


def unit_rows(rows: NDArray[np.floating[Any]]) -> Floats:
    """Each row divided by its Euclidean length, in float64; a zero row stays zero."""
    rows64 = rows.astype(np.float64)
    length = np.linalg.norm(rows64, axis=1, keepdims=True)
    return np.asarray(np.divide(rows64, length, out=rows64, where=length > 0))


def centred_rows(rows: NDArray[np.floating[Any]], centre: Floats) -> Floats:
    """`rows - centre` in float64; a row that differs from it by rounding alone becomes zero."""
    rows64 = rows.astype(np.float64)
    reach = np.linalg.norm(rows64, axis=1) + np.linalg.norm(centre)
    rows64 -= centre
    rows64[np.linalg.norm(rows64, axis=1) <= ROUNDING * reach] = 0.0
    return rows64
