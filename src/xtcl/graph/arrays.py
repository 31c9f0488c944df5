"""Array types, and the step from whatever a caller has to arrays nobody can change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from xtcl.errors import DataError, first_few

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float32]
if TYPE_CHECKING:
    SparseMatrix: TypeAlias = sparse.csr_array[np.float32, tuple[int, int]]
else:
    SparseMatrix = sparse.csr_array
Attributes: TypeAlias = FloatArray | SparseMatrix

Frozen = TypeVar("Frozen")


def to_host(value: object, what: str) -> Any:
    """A numpy array or scipy sparse matrix of `value`; torch tensors are brought to the host.

    torch is not imported: a caller who holds a tensor has done that already.
    """
    if sparse.issparse(value):
        return value
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor_to_host(value)
    if np.ma.isMaskedArray(value):
        if np.ma.is_masked(value):
            raise DataError(f"{what} have masked entries; fill them, for instance with .filled(0).")
        value = np.ma.getdata(value)
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        raise DataError(f"{what} cannot be read as an array ({error}).") from error


def to_array(value: object, what: str) -> np.ndarray[Any, Any]:
    """As `to_host`, where a sparse matrix makes no sense."""
    array = to_host(value, what)
    if not isinstance(array, np.ndarray):
        raise DataError(f"{what} must be a plain array, not a sparse matrix; use .toarray().")
    return array


def first_offenders(
    places: Sequence[int] | np.ndarray[Any, Any], describe: Callable[[int], str], limit: int = 5
) -> str:
    """As `first_few`, but only what is shown is described: millions of cells can be wrong."""
    shown = first_few(describe(int(at)) for at in places[:limit])
    return shown if len(places) <= limit else f"{shown}, ... ({len(places)} in all)"


def _tensor_to_host(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:  # numpy has no such type; float32 holds every value of it
        tensor = tensor.float()
    if tensor.layout == torch.strided:
        return tensor.resolve_conj().resolve_neg().numpy()
    entries = tensor.to_sparse_coo().coalesce()
    places = tuple(entries.indices().numpy())
    return sparse.coo_array((entries.values().numpy(), places), shape=tuple(entries.shape))


def frozen(array: Frozen) -> Frozen:
    """The array (or CSR matrix, or None) itself where it is read-only, else a read-only copy."""
    if isinstance(array, sparse.csr_array):
        if any(part.flags.writeable for part in (array.data, array.indices, array.indptr)):
            array = array.copy()
            for part in (array.data, array.indices, array.indptr):
                part.setflags(write=False)
    elif isinstance(array, np.ndarray) and array.flags.writeable:
        array = array.copy()
        array.setflags(write=False)
    return array


def shared_view(matrix: SparseMatrix) -> SparseMatrix:
    """A new CSR object over the same arrays, which must be canonical."""
    view: Any = sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    view.has_canonical_format = True  # or scipy would scan for it on first use
    result: SparseMatrix = view
    return result
