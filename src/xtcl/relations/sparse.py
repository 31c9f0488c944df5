"""Sparse matrices on the device, as the sparse relations need them."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
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
    """Hide the warnings of torch when a process makes its first sparse tensor.

    They say that CSR tensors are in beta, and in 2.11 and 2.12 that they are not checked, even with
    `check_invariants` (pytorch/pytorch#184610). A user can do nothing about either.
    """
    with warnings.catch_warnings():
        for message in ("Sparse CSR tensor support", "Sparse invariant checks"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield


def to_device(matrix: sp.csr_array, device: torch.device) -> Tensor:
    """A SciPy CSR matrix as a float32 torch CSR tensor.

    Indices are int32 where the sizes allow it. A product reads fewer bytes then, and MKL would
    convert int64 indices to int32 in every call.
    """
    matrix = sp.csr_array(matrix)
    short = max(matrix.nnz, *matrix.shape) < 2**31
    index = torch.int32 if short else torch.int64
    if not matrix.has_sorted_indices:  # torch needs it; sparse products do not have it
        matrix = matrix.sorted_indices()
    with quiet_sparse():
        return torch.sparse_csr_tensor(
            torch.tensor(matrix.indptr, dtype=index),
            torch.tensor(matrix.indices, dtype=index),
            torch.tensor(matrix.data, dtype=torch.float32),
            size=matrix.shape,
            # Checked on the CPU, which does not wait for a GPU. Torch 2.11 refuses an empty one.
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


def within_hops(adjacency: sp.csr_array, hops: int) -> sp.csr_array:
    """Pairs of different nodes at most `hops` links apart, a sparse 0/1 matrix [V, V].

    With one hop these are the links. Cost: for two hops the sum of squared degrees, in time and in
    memory up to pairs that several paths join; each further hop multiplies it by about the degree.
    """
    ones = np.ones(adjacency.nnz, dtype=np.int32)
    links = sp.csr_array((ones, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    found = links
    for _ in range(hops - 1):
        found = sp.csr_array(found @ links + found)
        found.data[:] = 1  # walks, of which there would soon be more than an integer holds
    found = sp.csr_array(found - sp.diags_array(found.diagonal(), dtype=np.int32))
    found.eliminate_zeros()
    found.sort_indices()
    return found.astype(np.float32)


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
    """The position in `nodes` of each entry of these CSR rows, and where the entry lies."""
    first = start[nodes]
    return ranges(first, start[nodes + 1] - first)


def ranges(first: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Concatenated ranges first[i] .. first[i] + length[i], preceded by the index i of each."""
    whose = torch.repeat_interleave(torch.arange(len(first), device=first.device), length)
    ahead = first - (torch.cumsum(length, 0) - length)
    # `index_select` takes a quarter of the time of an index in brackets on a CPU.
    return whose, torch.arange(len(whose), device=first.device) + ahead.index_select(0, whose)


def sorted_keys(keys: Tensor) -> Tensor:
    """Whole numbers in ascending order. On a CPU NumPy takes a fifth of torch's time."""
    return torch.from_numpy(np.sort(keys.numpy())) if keys.is_cpu else torch.sort(keys).values


def is_among(keys: Tensor, known: Tensor) -> Tensor:
    """Which keys, none negative, are in the sorted `known`."""
    place = torch.searchsorted(known, keys)
    return torch.nn.functional.pad(known, (0, 1), value=-1).index_select(0, place) == keys


def values_at(keys: Tensor, known: Tensor, values: Tensor) -> Tensor:
    """The values of `keys` [m] among those of the sorted `known`, 0 for a key that is not there.

    Cost: O(m log n) for n known keys.
    """
    if not len(known):
        return values.new_zeros(len(keys))
    place = torch.searchsorted(known, keys).clamp_max_(len(known) - 1)
    return torch.where(known[place] == keys, values[place], 0.0)


def entries_of_pairs(
    matrix: sp.csr_array, device: torch.device
) -> Callable[[Tensor, Tensor], Tensor]:
    """A look-up of entries (u [m], v [m]) of a square sparse matrix, 0 where there is none."""
    entries, width = CSRGraph.from_scipy(matrix, device, weighted=True), matrix.shape[1]
    known = entries.row * width + entries.column
    return lambda u, v: values_at(u * width + v, known, entries.weights)


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

    It needs a C compiler and Python's headers, which small images do not have.
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

    Entry i says that the u at place `row[i]` of the block is paired with v = `node[i]`. O(m) memory
    for m pairs, where the dense form takes V for every u.
    """

    row: Tensor
    """int64 [m], the place of u in the block, ascending."""
    node: Tensor
    """int64 [m], v, ascending within a row."""
    num_rows: int
    """b; rows without any entry count, too."""
    value: Tensor | None = None
    """[m], such as similarities (float32)."""
    level: Tensor | None = None
    """uint8 [m], how many thresholds the pair reaches: 1 or more."""

    @classmethod
    def from_keys(
        cls, key: Tensor, value: Tensor | None, num_rows: int, num_nodes: int
    ) -> SparseRows:
        """From keys row * V + node, sorted ascending."""
        row = key // num_nodes
        return cls(row, key - row * num_nodes, num_rows, value)

    @classmethod
    def from_unsorted_keys(
        cls, key: Tensor, value: Tensor, num_rows: int, num_nodes: int
    ) -> SparseRows:
        """From keys in any order."""
        key, order = torch.sort(key, stable=True)
        return cls.from_keys(key, value.index_select(0, order), num_rows, num_nodes)

    @classmethod
    def from_scipy(cls, matrix: sp.csr_array, device: torch.device) -> SparseRows:
        """From a matrix [b, V] with sorted indices."""
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        parts = row, matrix.indices.astype(np.int64), matrix.data
        placed = (torch.from_numpy(part).to(device) for part in parts)
        return cls(next(placed), next(placed), matrix.shape[0], next(placed))

    @classmethod
    def joined(cls, blocks: Sequence[SparseRows]) -> SparseRows:
        """The rows of one block after those of the other, of one block at least."""
        if len(blocks) == 1:
            return blocks[0]
        first = itertools.accumulate((block.num_rows for block in blocks), initial=0)
        values = [block.value for block in blocks if block.value is not None]
        levels = [block.level for block in blocks if block.level is not None]
        return cls(
            torch.cat([block.row + before for block, before in zip(blocks, first, strict=False)]),
            torch.cat([block.node for block in blocks]),
            sum(block.num_rows for block in blocks),
            torch.cat(values) if values else None,
            torch.cat(levels) if levels else None,
        )

    @property
    def start(self) -> Tensor:
        """Where each row begins and the last one ends: int64 [b + 1], as in CSR form."""
        rows = torch.arange(self.num_rows + 1, device=self.row.device)
        return torch.searchsorted(self.row, rows)

    @property
    def length(self) -> Tensor:
        """Entries of each row, int64 [b]."""
        return self.start.diff()

    @property
    def values(self) -> Tensor:
        """`value`, of rows that have one."""
        return _given(self.value)

    def key(self, num_nodes: int) -> Tensor:
        """Row * V + node of every entry, ascending."""
        return self.row * num_nodes + self.node

    def matrix(self, num_nodes: int) -> sp.csr_array:
        """The values as a sparse matrix [b, V]."""
        parts = tuple(part.cpu().numpy() for part in (self.values, self.node, self.start))
        return sp.csr_array(parts, shape=(self.num_rows, num_nodes))

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

    def between(self, first: int, end: int) -> SparseRows:
        """The rows at the places from `first` to before `end`."""
        bounds = torch.tensor([first, end], device=self.row.device)
        entries = slice(*torch.searchsorted(self.row, bounds).tolist())
        return self._chosen(self.row[entries] - first, entries, end - first)

    def at(self, places: Tensor) -> SparseRows:
        """The rows at `places` [b], in the order of these. O(1) an entry."""
        row, entry = row_entries(self.start, places)
        return self._chosen(row, entry, len(places))

    def where(self, chosen: Tensor) -> SparseRows:
        """The entries that are `chosen`, bool [m]."""
        return self._chosen(self.row[chosen], chosen, self.num_rows)

    def _chosen(self, row: Tensor, entry: Tensor | slice, num_rows: int) -> SparseRows:
        value, level = (None if part is None else part[entry] for part in (self.value, self.level))
        return SparseRows(row, self.node[entry], num_rows, value, level)

    def to(self, device: torch.device) -> SparseRows:
        """The same on another device."""
        row, node = self.row.to(device), self.node.to(device)
        value, level = (None if part is None else part.to(device) for part in self[3:])
        return SparseRows(row, node, self.num_rows, value, level)

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


class CSRGraph(NamedTuple):
    """Both directions of every link, sorted by their first end.

    A loop carries nothing: it is in the place of a link that was left out (`mask_edges`).
    """

    row: Tensor
    """int64 [m], the first ends."""
    column: Tensor
    """int64 [m], the neighbours of node u at places start[u] to start[u + 1]."""
    degree: Tensor
    """int64 [V], without loops that stand for links left out."""
    start: Tensor
    """int64 [V + 1]"""
    weight: Tensor | None = None
    """float32 [m]"""

    @classmethod
    def from_edge_index(cls, edge_index: Tensor, num_nodes: int) -> CSRGraph:
        """Links [2, m] without loops. Cost: O(m) if they are sorted by row, as in a `Graph`."""
        row, column = edge_index
        if not ((row[1:] >= row[:-1]).all() & (row != column).all()):
            row, column = edge_index[:, row != column]
            order = row.argsort(stable=True)
            row, column = row[order], column[order]
        degree = torch.bincount(row, minlength=num_nodes)
        start = torch.cat([degree.new_zeros(1), degree.cumsum(0)])
        return cls(row, column, degree, start)

    @classmethod
    def from_scipy(
        cls, matrix: sp.csr_array, device: torch.device, *, weighted: bool = False
    ) -> CSRGraph:
        """The entries of a matrix, columns ascending within a row; loops count here as entries."""
        links = to_device(matrix, device)
        start, column = links.crow_indices().long(), links.col_indices().long()
        degree = start.diff()
        nodes = torch.arange(len(degree), device=device)
        row = torch.repeat_interleave(nodes, degree, output_size=len(column))
        return cls(row, column, degree, start, links.values() if weighted else None)

    @property
    def num_nodes(self) -> int:
        """V."""
        return len(self.start) - 1

    @property
    def weights(self) -> Tensor:
        """`weight`, which must be there."""
        if self.weight is None:
            raise UsageError("These links were made without weights.")
        return self.weight

    def scipy_matrix(self) -> sp.csr_array:
        """The links as a 0/1 matrix of SciPy, of links on a CPU."""
        ones = np.ones(len(self.column), dtype=np.int32)
        parts = ones, self.column.numpy(), self.start.numpy()
        return sp.csr_array(parts, shape=(self.num_nodes, self.num_nodes))

    def neighbours(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """All links of `nodes`, node by node: the place of the node, and its neighbour."""
        row, entry = row_entries(self.start, nodes)
        return row, self.column.index_select(0, entry)

    def has_edges(self, nodes: Tensor, row: Tensor, partner: Tensor) -> Tensor:
        """Which pairs (nodes[row], partner) are links: bool [m]. Cost: O(m log n) for n links."""
        place, end = self.neighbours(nodes)
        return is_among(row * self.num_nodes + partner, place * self.num_nodes + end)

    def mask_edges(self, left_out: Tensor) -> CSRGraph:
        """The same places without the links `left_out`, bool [m]: no shape changes."""
        stay = torch.nn.functional.pad((~left_out).cumsum(0), (1, 0))[self.start]
        column = self.column.where(~left_out, self.row)
        return self._replace(column=column, degree=stay.diff())


def _given(column: Tensor | None) -> Tensor:
    if column is None:
        raise UsageError(
            "The entries of these rows lack a value or a level: make the rows with both."
        )
    return column
