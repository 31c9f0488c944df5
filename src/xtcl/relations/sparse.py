"""Sparse matrices on the device, as the sparse relations need them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from xtcl.relations.kernels.use import kernels_run_on


@contextmanager
def quiet_sparse() -> Iterator[None]:
    """Keep to itself what torch says once per process when it first makes a sparse tensor.

    That CSR tensors are in beta, and in 2.11 and 2.12 that nobody checks them, even where
    `check_invariants` asks for it (pytorch/pytorch#184610): nothing a user could act on.
    """
    with warnings.catch_warnings():
        for message in ("Sparse CSR tensor support", "Sparse invariant checks"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield


def to_device(matrix: sp.csr_array, device: torch.device) -> Tensor:
    """A SciPy CSR matrix as a float32 torch CSR tensor.

    With short indices where they do: they are a good part of what a product reads, and MKL would
    make short copies of long ones in every call.
    """
    matrix = sp.csr_array(matrix)
    short = max(matrix.nnz, *matrix.shape) < 2**31
    index = torch.int32 if short else torch.int64
    if not matrix.has_sorted_indices:  # as torch wants them; products of sparse matrices do not
        matrix = matrix.sorted_indices()
    with quiet_sparse():
        return torch.sparse_csr_tensor(
            torch.tensor(matrix.indptr, dtype=index),
            torch.tensor(matrix.indices, dtype=index),
            torch.tensor(matrix.data, dtype=torch.float32),
            size=matrix.shape,
            # Here, where nobody waits for the answer of a GPU. What is empty torch 2.11 refuses.
            check_invariants=matrix.nnz > 0,
        ).to(device)


def product(matrix: Tensor, dense: Tensor) -> Tensor:
    """A CSR matrix times a dense one [n, h]. Cost: O(h) for an entry of the matrix.

    On a CPU rows are added up as if they were embeddings: those routines of torch ask for a row
    before they need it, and take a half to a tenth of the time of MKL's product. On a GPU a
    relation has kernels of its own.
    """
    if dense.device.type != "cpu" or matrix.layout != torch.sparse_csr:
        result: Tensor = matrix @ dense
        return result
    if dense.shape[1] == 0:  # which the routine cannot divide among threads
        return dense.new_zeros(matrix.shape[0], 0)
    return embedding_bag(
        matrix.col_indices(),
        dense.contiguous(),
        matrix.crow_indices(),
        mode="sum",
        per_sample_weights=matrix.values(),
        include_last_offset=True,
    )


def scaled(matrix: sp.csr_array, rows: np.ndarray, columns: np.ndarray) -> sp.csr_array:
    """Every entry (u, v) times rows[u] and columns[v]; quicker than products with diagonals."""
    values = np.repeat(rows, np.diff(matrix.indptr)) * matrix.data * columns[matrix.indices]
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def dense_on(matrix: np.ndarray | sp.csr_array, device: torch.device) -> Tensor:
    """A matrix with all its zeros, float32."""
    if sp.issparse(matrix):
        entries = sp.csr_array(matrix)
        if not entries.has_canonical_format:
            entries = entries.copy()
            entries.sum_duplicates()
        return to_device(entries, device).to_dense()  # zeros need not travel
    return torch.tensor(np.ascontiguousarray(matrix, dtype=np.float32), device=device)


def row_entries(start: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Where the entries of the CSR rows `nodes` lie, and in which place of `nodes` their row is."""
    first = start[nodes]
    return ranges(first, start[nodes + 1] - first)


def ranges(first: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """The `length` numbers from `first` on, for one pair after the other; before them, whose."""
    whose = torch.repeat_interleave(torch.arange(len(first), device=first.device), length)
    before = torch.cumsum(length, 0) - length
    return whose, torch.arange(len(whose), device=first.device) + (first - before)[whose]


def is_among(keys: Tensor, known: Tensor) -> Tensor:
    """Which keys, none negative, are in the sorted `known`."""
    place = torch.searchsorted(known, keys)
    return torch.nn.functional.pad(known, (0, 1), value=-1)[place] == keys


def dense_rows(matrix: Tensor, nodes: Tensor) -> Tensor:
    """The rows `nodes` of a torch CSR tensor as a dense matrix [b, V]."""
    if kernels_run_on(nodes.device):
        from xtcl.relations.kernels import dense_rows as kernel

        return kernel.dense_rows(matrix, nodes)
    row, entry = row_entries(matrix.crow_indices(), nodes)
    rows = torch.zeros(len(nodes), matrix.shape[1], device=nodes.device)
    rows[row, matrix.col_indices()[entry].long()] = matrix.values()[entry]
    return rows
