"""How many neighbours two nodes share: what Jaccard and topology similarity are made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.sparse import (
    CSRGraph,
    SparseRows,
    dense_rows,
    is_among,
    kernels_run_on,
    product,
    ranges,
    row_entries,
    sorted_keys,
    to_device,
)
from xtcl.relations.topk import split_by
from xtcl.relations.view import TrainingView

PATH_COST = {"cpu": 96, "cuda": 24}
"""What walking a path of two steps costs on a device, in entries of a sparse product."""

MAX_PATHS = 2**23
"""Paths to walk at once, except for those of a single node: some 300 MB."""

MAX_LOOKUPS = 2**22
"""Neighbours to look up at once, except for those of a single pair: some 200 MB."""


def common_neighbours(adjacency: sp.csr_array, device: torch.device) -> Callable[[Tensor], Tensor]:
    """Rows of A A, exact as float32 while degrees stay under 2^24.

    Cost: O(b V), and of two ways the shorter one for b nodes: their paths of two steps, or a
    product of O(b E).
    """
    links = to_device(adjacency, device)
    if kernels_run_on(device):
        from xtcl.relations.triton_kernels import count_paths

        return lambda nodes: count_paths(links.crow_indices(), links.col_indices(), nodes)
    paths = adjacency @ np.diff(adjacency.indptr)
    path_cost = PATH_COST.get(device.type, PATH_COST["cpu"])
    start, end = links.crow_indices().long(), links.col_indices().long()

    def walk(nodes: Tensor) -> Tensor:
        row, first = row_entries(start, nodes)
        path, second = row_entries(start, end[first])
        count = torch.zeros(len(nodes), len(start) - 1, device=device)
        place = row[path] * count.shape[1] + end[second]
        count.view(-1).scatter_add_(0, place, torch.ones_like(place, dtype=count.dtype))
        return count

    def compute(nodes: Tensor) -> Tensor:
        so_far = np.cumsum(paths[nodes.cpu().numpy()], dtype=np.int64)
        if path_cost * so_far[-1] > len(nodes) * adjacency.nnz:
            return product(links, dense_rows(links, nodes).T).T
        sizes = np.unique(so_far // MAX_PATHS, return_counts=True)[1].tolist()
        parts = [walk(part) for part in torch.split(nodes, sizes)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    return compute


def neighbourhood(adjacency: sp.csr_array, hops: int) -> sp.csr_array:
    """0/1 matrix of the nodes within `hops` steps, the node itself left out."""
    reached = adjacency
    for _ in range(hops - 1):
        reached = sp.csr_array(reached + reached @ adjacency)
    within = sp.csr_array(
        (np.ones_like(reached.data, dtype=np.float32), reached.indices, reached.indptr),
        shape=reached.shape,
    )
    within.setdiag(0.0)
    within.eliminate_zeros()
    return within


def count_two_step_paths(near: sp.csr_array) -> np.ndarray:
    """Number of paths of two steps from every node: how many entries a row of A A has at most."""
    return np.asarray(near @ np.diff(near.indptr).astype(np.float64)).astype(np.int64)


def common_neighbour_lists(links: CSRGraph, nodes: Tensor, *, ordered: bool = True) -> SparseRows:
    """How many paths of two steps lead from `nodes` to others: rows of A A, int32 or int64.

    Unless they are `ordered`, the nodes of a row may come in any order. Cost: on a CPU a sparse
    product, and a sort of its entries where they are ordered; on a GPU a sort of the paths.
    """
    if nodes.is_cpu:
        matrix = links.scipy_matrix()
        shared = matrix[nodes.numpy()] @ matrix
        if ordered:
            shared.sort_indices()
        return SparseRows.from_scipy(shared, nodes.device)
    row, middle = links.neighbours(nodes)
    path, end = links.neighbours(middle)
    key = sorted_keys(row.index_select(0, path) * links.num_nodes + end)
    key, count = torch.unique_consecutive(key, return_counts=True)
    return SparseRows.from_keys(key, count, len(nodes), links.num_nodes)


class SharedNeighbours:
    """How many neighbours single pairs share, and which of them are links.

    Of two nodes the one with fewer neighbours is taken, and each of its neighbours is looked up
    among the links of the other. So a pair has the similarity of the exact row, however far down in
    it. Cost: the smaller degree of each pair, times log E, and O(E) memory.
    """

    @classmethod
    def among(cls, view: TrainingView) -> SharedNeighbours:
        """Those of a view, made once for all relations."""
        return view.cached("shared neighbours", lambda: cls(view.links()))

    def __init__(self, links: CSRGraph) -> None:
        self.degree = links.degree
        self._links = links
        self._keys = links.row * links.num_nodes + links.column

    def linked(self, u: Tensor, v: Tensor) -> Tensor:
        """Which pairs are links: bool [m]."""
        return is_among(u * self._links.num_nodes + v, self._keys)

    def __call__(self, u: Tensor, v: Tensor) -> Tensor:
        """How many neighbours each pair shares: int64 [m]."""
        first = self.degree[u] <= self.degree[v]
        smaller, larger = torch.where(first, u, v), torch.where(first, v, u)
        pairs = torch.arange(len(u), device=u.device)
        parts = split_by(pairs, self.degree[smaller], MAX_LOOKUPS)
        return torch.cat([self._count(smaller[part], larger[part]) for part in parts])

    def _count(self, smaller: Tensor, larger: Tensor) -> Tensor:
        pair, entry = ranges(self._links.start[smaller], self.degree[smaller])
        found = self.linked(larger[pair], self._links.column[entry])
        return torch.zeros_like(smaller).index_add_(0, pair, found.long())
