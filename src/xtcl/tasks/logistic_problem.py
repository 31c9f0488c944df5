"""Training rows and labels made ready for logistic regression, and what undoes the preparation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from xtcl.errors import DataError, first_few
from xtcl.tasks.principal_rows import PrincipalRows, principal_rows
from xtcl.tasks.rows import Floats, Rows, centred_rows, checked_rows

Codes = NDArray[np.int64]


class Problem(NamedTuple):
    """Rows z - mean, scaled and in principal axes; `classes[codes]` are their labels.

    Codes and turned rows lie where the rows lay, which is where they are fitted.
    """

    mean: Floats
    scale: float
    normalise: bool
    classes: Codes
    codes: Tensor
    turned: PrincipalRows


def prepare(
    embedding: Rows, labels: ArrayLike, normalise: bool, device: torch.device | None
) -> Problem:
    """Check, centre, scale and turn the training rows [n, d] with class codes [n]."""
    rows = checked_rows(embedding, "The embedding", device)
    classes, codes = _checked_labels(labels, len(rows))
    mean = rows.mean(dim=0, dtype=torch.float64)
    centred = centred_rows(rows, mean)
    scale = 1.0 if normalise else _scale(centred)
    turned = principal_rows(scaled(centred, scale, normalise), overwrite=True)
    known = torch.from_numpy(codes).to(rows.device)
    return Problem(mean.cpu().numpy(), scale, normalise, classes, known, turned)


def _checked_labels(labels: ArrayLike, num_rows: int) -> tuple[Codes, Codes]:
    """The classes present, and each label as a position among them."""
    values = np.asarray(labels)
    if values.shape != (num_rows,) or not np.issubdtype(values.dtype, np.integer):
        raise DataError(
            f"The labels are {values.dtype} of shape {values.shape}; "
            f"pass one integer class code for each of the {num_rows} training rows."
        )
    if (values < 0).any():
        raise DataError(
            f"Training rows {first_few(np.flatnonzero(values < 0))} have a negative class code; "
            "leave nodes without a label out of the training rows."
        )
    classes, codes = np.unique(values, return_inverse=True)
    if len(classes) < 2:
        raise DataError(
            f"The {num_rows} training labels are of {len(classes)} class; a classifier needs two. "
            "Label nodes of another class, or draw a larger or a stratified training set."
        )
    return classes.astype(np.int64), codes.astype(np.int64)


def _scale(centred: Tensor) -> float:
    """Root mean square length of the rows; 1 for a constant embedding, which has no length."""
    size = float(centred.square().sum(dim=1).mean().sqrt())
    return size if size > 0 else 1.0


def scaled(centred: Tensor, scale: float, normalise: bool) -> Tensor:
    """Centred rows at unit length each, or all divided by one scale; done in place."""
    if not normalise:
        return centred.div_(scale)
    length = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
    return centred.div_(torch.where(length > 0, length, 1.0))
