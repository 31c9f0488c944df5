"""How many neighbours two nodes share: what Jaccard and topology similarity are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.sparse import (
    dense_rows,
    is_among,
    kernels_run_on,
    product,
    row_entries,
    to_device,
)
from xtcl.relations.topk import Lists
from xtcl.relations.view import TrainingView

PATH = {"cpu": 96, "cuda": 24}
"""What walking a path of two steps costs on a device, in entries of a sparse product."""


MAX_PATHS = 2**23
"""Paths to walk at once, but for those of a single node: some 300 MB."""


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
    path = PATH.get(device.type, PATH["cpu"])
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
        if path * so_far[-1] > len(nodes) * adjacency.nnz:
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


class Links(NamedTuple):
    """A sparse matrix in CSR form, columns ascending within a row."""

    start: Tensor  # int64 [V + 1]
    end: Tensor  # int64 [E]
    weight: Tensor  # float32 [E]

    @classmethod
    def of(cls, matrix: sp.csr_array, device: torch.device) -> Links:
        """A SciPy matrix on the device."""
        links = to_device(matrix, device)
        return cls(links.crow_indices().long(), links.col_indices().long(), links.values())

    @classmethod
    def among(cls, view: TrainingView) -> Links:
        """The adjacency of a view, once for all searches."""
        return view.once("links on the device", lambda: cls.of(view.adjacency, view.device))

    @property
    def num_nodes(self) -> int:
        """V."""
        return len(self.start) - 1

    @property
    def degree(self) -> Tensor:
        """Entries of every row, int64 [V]."""
        return self.start.diff()

    def steps(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """All links of `nodes`, one node after the other: the place of the node, the other end."""
        row, entry = row_entries(self.start, nodes)
        return row, self.end[entry]

    def hold(self, nodes: Tensor, row: Tensor, partner: Tensor) -> Tensor:
        """Which pairs (nodes[row], partner) are links: bool [m]. Cost: O(m log n) for n links."""
        place, end = self.steps(nodes)
        return is_among(row * self.num_nodes + partner, place * self.num_nodes + end)


def ends_of_two(links: Links, nodes: Tensor) -> Lists:
    """How many paths of two steps lead from `nodes` to others, int64: rows of A A.

    Cost: a sort of the paths.
    """
    shape = (len(nodes), links.num_nodes)
    row, middle = links.steps(nodes)
    path, end = links.steps(middle)
    key, count = torch.unique(row[path] * shape[1] + end, return_counts=True)
    return Lists(key, count, shape)
