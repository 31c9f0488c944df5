"""Sparse matrices on the device, as the sparse relations need them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from xtcl.errors import UsageError


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
        from xtcl.relations import triton_kernels as kernel

        return kernel.dense_rows_kernel(matrix, nodes)
    row, entry = row_entries(matrix.crow_indices(), nodes)
    rows = torch.zeros(len(nodes), matrix.shape[1], device=nodes.device)
    rows[row, matrix.col_indices()[entry].long()] = matrix.values()[entry]
    return rows


@cache
def kernels_run_on(device: torch.device) -> bool:
    """Whether Triton, which PyTorch brings along for its own GPU builds, can compile them.

    It wants a C compiler and Python's headers, which small images do not have.
    """
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    from xtcl.relations.triton_kernels import row_levels

    try:
        row_levels(torch.zeros(1, 2, device=device), torch.zeros(1, device=device).long(), [1])
    except Exception as reason:
        warnings.warn(
            f"Relations take longer on this GPU than they could: Triton says '{reason}'. "
            "It needs a C compiler and Python's headers.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


class SparseRows(NamedTuple):
    """Some nodes v for each of b nodes u, sorted by u and then by v: the pairs a relation lists.

    Entry i pairs the u at place `row[i]` of the block with v = `node[i]`. O(m) memory
    for m pairs, where the dense form takes V for every u.
    """

    row: Tensor
    """int64 [m], the place of u in the block, ascending."""
    node: Tensor
    """int64 [m], v, ascending within a row."""
    num_rows: int
    """b; rows without any entry count, too."""
    value: Tensor | None = None
    """[m], such as similarities (float32) or pattern codes (int64)."""
    level: Tensor | None = None
    """uint8 [m], how many thresholds the pair reaches: 1 or more."""

    @property
    def start(self) -> Tensor:
        """Where each row begins and the last one ends: int64 [b + 1], as in CSR form."""
        rows = torch.arange(self.num_rows + 1, device=self.row.device)
        return torch.searchsorted(self.row, rows)

    @classmethod
    def empty(cls, num_rows: int) -> SparseRows:
        """Rows without any entry, on the CPU."""
        nothing = torch.zeros(0, dtype=torch.int64)
        return cls(nothing, nothing, num_rows, nothing.float(), nothing.to(torch.uint8))

    @classmethod
    def of_levels(cls, level: Tensor, value: Tensor) -> SparseRows:
        """The entries of dense blocks, each [b, V], whose level is not 0."""
        row, node = torch.nonzero(level, as_tuple=True)
        return cls(row, node, len(level), value[row, node], level[row, node])

    @classmethod
    def joined(cls, parts: Sequence[SparseRows]) -> SparseRows:
        """The rows of one part after those of the other. All parts have values and levels."""
        first = np.cumsum([0, *(part.num_rows for part in parts)]).tolist()
        return cls(
            torch.cat([part.row + before for part, before in zip(parts, first, strict=False)]),
            torch.cat([part.node for part in parts]),
            first[-1],
            torch.cat([part.values for part in parts]),
            torch.cat([part.levels for part in parts]),
        )

    def between(self, first: int, end: int) -> SparseRows:
        """The rows at the places from `first` to before `end`."""
        bounds = torch.tensor([first, end], device=self.row.device)
        entries = slice(*torch.searchsorted(self.row, bounds).tolist())
        return self._chosen(self.row[entries] - first, entries, end - first)

    def at(self, places: Tensor) -> SparseRows:
        """The rows at `places` [b], in the order of these. O(1) an entry."""
        row, entry = row_entries(self.start, places)
        return self._chosen(row, entry, len(places))

    def _chosen(self, row: Tensor, entry: Tensor | slice, num_rows: int) -> SparseRows:
        value, level = (None if part is None else part[entry] for part in (self.value, self.level))
        return SparseRows(row, self.node[entry], num_rows, value, level)

    def to(self, device: torch.device) -> SparseRows:
        """The same on another device."""
        row, node = self.row.to(device), self.node.to(device)
        value, level = (None if part is None else part.to(device) for part in self[3:])
        return SparseRows(row, node, self.num_rows, value, level)

    def where(self, chosen: Tensor) -> SparseRows:
        """The entries that are `chosen`, bool [m]."""
        return self._chosen(self.row[chosen], chosen, self.num_rows)

    @property
    def values(self) -> Tensor:
        """`value`, of rows that have one."""
        return _given(self.value)

    @property
    def levels(self) -> Tensor:
        """`level`, of rows that have one."""
        return _given(self.level)

    def dense_levels(self, num_nodes: int) -> Tensor:
        """The level of every pair, 0 where there is no entry: uint8 [b, V]."""
        block = torch.zeros(self.num_rows, num_nodes, dtype=torch.uint8, device=self.row.device)
        block[self.row, self.node] = self.levels
        return block

    def padded(self, values: Tensor, padding: float) -> Tensor:
        """`values` [m] of the entries row by row: [b, longest row], with `padding` at the end."""
        length = torch.bincount(self.row, minlength=self.num_rows)
        first = length.cumsum(0) - length
        column = torch.arange(len(self.row), device=self.row.device) - first[self.row]
        shape = (self.num_rows, max(int(length.max()), 1))
        matrix = torch.full(shape, padding, dtype=values.dtype, device=values.device)
        matrix[self.row, column] = values
        return matrix

    def to_numpy(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Row, node, value and level of the entries."""
        columns = (self.row, self.node, self.values, self.levels)
        row, node, value, level = (column.cpu().numpy() for column in columns)
        return row, node, value, level


def _given(column: Tensor | None) -> Tensor:
    if column is None:
        raise UsageError(
            "The entries of these rows lack a value or a level: make the rows with both."
        )
    return column
