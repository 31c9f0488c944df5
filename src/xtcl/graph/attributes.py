"""Node attributes: finite float32, dense or sparse as they were given."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from xtcl.errors import DataError
from xtcl.graph.arrays import Attributes, FloatArray, SparseMatrix, first_offenders, to_host


def check_attributes(attributes: object) -> Attributes:
    """A float32 copy of the attributes, refused unless every value is a finite number."""
    values = to_host(attributes, "Attributes")
    if values.ndim != 2:
        hint = " A single column is attributes.reshape(-1, 1)." if values.ndim == 1 else ""
        raise DataError(f"Attributes must have the shape [V, D], not {list(values.shape)}.{hint}")
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"Attributes must be real numbers, not {values.dtype}; "
            "encode categories and text as columns of numbers first."
        )
    return _dense(values) if isinstance(values, np.ndarray) else _sparse(values)


def _dense(values: np.ndarray[Any, Any]) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        result = np.array(values, dtype=np.float32, order="C", copy=True)
    wrong = ~np.isfinite(result)
    if wrong.any():
        rows, columns = np.nonzero(wrong)
        _refuse(rows, columns, values[wrong])
    result.setflags(write=False)
    return result


def _sparse(values: Any) -> SparseMatrix:
    matrix = sparse.csr_array(sound_copy(values, "attribute"))
    matrix.sum_duplicates()
    exact = matrix.data
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = matrix.astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(matrix.data))
    if wrong.size:
        rows = np.searchsorted(matrix.indptr, wrong, side="right") - 1
        _refuse(rows, matrix.indices[wrong], exact[wrong])
    matrix.eliminate_zeros()
    matrix.sort_indices()
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.setflags(write=False)
    return matrix


def sound_copy(matrix: Any, what: str) -> Any:
    """A copy of a scipy sparse matrix whose places all lie inside it, else scipy may crash."""
    own = matrix.copy()  # scipy's check may change what it checks
    try:
        if own.format in ("csr", "csc", "bsr"):
            own.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise DataError(f"The sparse {what} matrix is damaged ({error}).") from error
    return own


def _refuse(
    rows: np.ndarray[Any, Any], columns: np.ndarray[Any, Any], found: np.ndarray[Any, Any]
) -> None:
    cells = first_offenders(
        range(len(found)), lambda at: f"({rows[at]}, {columns[at]}) is {found[at]}"
    )
    if np.isfinite(found).all():
        raise DataError(
            f"Attributes are too large for float32 at (row, column) {cells}; "
            "scale the columns, for instance to unit variance."
        )
    raise DataError(
        f"Attributes must be finite numbers, but at (row, column) {cells}; "
        "impute or drop these values first."
    )
