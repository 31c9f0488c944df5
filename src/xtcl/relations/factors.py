"""Relations whose similarity is the cosine of two rows of a matrix of factors."""

from __future__ import annotations

import torch
from torch import Tensor

from xtcl.relations.kernels.use import kernels_run_on
from xtcl.relations.relation import Rows
from xtcl.relations.sparse import product, to_device
from xtcl.relations.view import TrainingView


def unit_rows(factors: Tensor) -> Tensor:
    """Rows whose inner products are cosines; zero rows stay zero."""
    rows = torch.nn.functional.normalize(factors)
    # Zero columns change nothing, but without them a product of few columns with an odd number of
    # factors rounds differently at different places of a tile (seen with MKL for V < 12).
    return torch.nn.functional.pad(rows, (0, -rows.shape[1] % 16 or 16 * (rows.shape[1] == 0)))


def cosine_rows(factors: Tensor) -> Rows:
    """cos(f_u, f_v) for all v, with negative values cut to 0 and zero rows similar to nothing.

    Cost: O(V D) memory for the factors, O(b V D) per block of b rows.
    """
    rows = unit_rows(factors)

    def compute(nodes: Tensor) -> Tensor:
        return (rows[nodes] @ rows.T).clamp_(0.0, 1.0)

    return compute


def spread(view: TrainingView, values: Tensor, hops: int) -> Tensor:
    """A^k M: `values` [V, D] summed over all walks of length `hops`."""
    if kernels_run_on(view.device):
        from xtcl.relations.kernels import product as kernel

        rows = view.once("links of a kernel", lambda: kernel.Links.of(view.adjacency, view.device))
        for _ in range(hops):
            values = kernel.product(rows, values)
        return values
    links = to_device(view.adjacency, view.device)
    for _ in range(hops):
        values = product(links, values)
    return values
