"""Rows of an embedding made ready for a head: checked, taken, centred."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from xtcl.errors import DataError, first_few

Floats = NDArray[np.float64]

# Lengths below this share of what was subtracted are rounding, not signal; scaled to unit length
# they would turn a constant embedding into noise.
ROUNDING = 1e-12


Rows = ArrayLike | Tensor


def checked_rows(values: Rows, what: str, device: torch.device | None = None) -> Tensor:
    """`values` on `device` as a matrix of finite floats, of its own precision, or a DataError.

    A tensor has been checked, and is taken where it lies.
    """
    if isinstance(values, Tensor):
        return values
    rows = np.asarray(values)
    if rows.ndim != 2:
        raise DataError(f"{what} has {rows.ndim} dimensions; pass a matrix with one row per node.")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    found = torch.from_numpy(np.require(rows, requirements=["C", "W"])).to(device)
    bad = (~torch.isfinite(found).all(dim=1)).nonzero()[:, 0]
    if len(bad):
        raise DataError(
            f"{what} holds values that are not finite, in rows {first_few(bad.cpu().numpy())}. "
            "Look for a diverged training run, or for missing attributes in those rows."
        )
    return found


def take_rows(rows: Tensor, nodes: np.ndarray) -> Tensor:
    """The rows of `nodes`, where `rows` lie."""
    return rows[torch.from_numpy(nodes).to(rows.device)]


def centred_rows(rows: Tensor, centre: Tensor) -> Tensor:
    """`rows - centre` as a float64 copy; a row that differs by rounding alone becomes zero."""
    centred = rows.to(torch.float64, copy=True)
    reach = torch.linalg.vector_norm(centred, dim=1) + torch.linalg.vector_norm(centre)
    centred -= centre
    noise = torch.linalg.vector_norm(centred, dim=1) <= ROUNDING * reach
    return centred.masked_fill_(noise[:, None], 0.0)
