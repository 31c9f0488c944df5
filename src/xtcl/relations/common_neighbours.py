"""How many neighbours two nodes share: what Jaccard and topology similarity are made of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.sparse import dense_rows, to_device


def common_neighbours(adjacency: sp.csr_array, device: torch.device) -> Callable[[Tensor], Tensor]:
    """Rows of A A, exact as float32 while degrees stay under 2^24. Cost O(b E) for b rows."""
    links = to_device(adjacency, device)

    def compute(nodes: Tensor) -> Tensor:
        return (links @ dense_rows(links, nodes).T).T

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
