"""Rows in their principal axes: the same penalised fit in fewer columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xtcl.tasks.logistic_solver import Weights

Floats = NDArray[np.float64]


class PrincipalRows(NamedTuple):
    """`rows = coordinates @ axes.T + centre`, with orthonormal axes [d, r], r <= min(n, d)."""

    coordinates: Floats
    axes: Floats
    centre: Floats

    def unrotate(self, weights: Weights) -> Weights:
        """A fit of the coordinates, as a fit of the rows themselves."""
        coef = self.axes @ weights.coef
        return Weights(coef, weights.intercept - self.centre @ coef)


def principal_rows(rows: Floats) -> PrincipalRows:
    """Rotate rows [n, d] into their principal axes. Cost n d min(n, d), memory two copies.

    Nothing is approximated: an L2-penalised W lies in the span of the centred rows, and the centre
    moves into the unpenalised intercept. With n < d the axes come from an SVD of the rows (their
    Gram matrix would square the condition number and blur that span); with n >= d all d axes are
    kept, and any rotation is exact.
    """
    n, d = rows.shape
    centre = rows.mean(axis=0)
    centred = rows - centre
    if n >= d:
        axes = np.linalg.eigh(centred.T @ centred)[1]
    else:
        _, spectrum, right = np.linalg.svd(centred, full_matrices=False)
        rounding = d * np.finfo(np.float64).eps * spectrum.max()
        axes = right[spectrum > rounding].T
    return PrincipalRows(centred @ axes, axes, centre)
