"""How many neighbours two nodes share: what Jaccard and topology similarity are made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.kernels.use import kernels_run_on
from xtcl.relations.sparse import dense_rows, product, row_entries, to_device

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
        from xtcl.relations.kernels.paths import count_paths

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
