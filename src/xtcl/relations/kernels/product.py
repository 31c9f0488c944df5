"""A sparse matrix times a dense one, added up in one order.

cuSPARSE parts long rows among blocks of threads that add to the same place, so the last bit of a
sum differs from run to run, and a pair at its threshold is above in one run and below in the next.
Here every sum is one program's: neighbours a few at a time, in their order.

Programs of the same columns run side by side, so that what they gather stays in the cache, and
those of nodes with many neighbours come first, so that nobody waits for them at the end.

Cost: O(E + V) a column, and one pass over the result.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import triton
import triton.language as tl
from torch import Tensor

from xtcl.relations.sparse import to_device

SHORT = 16
"""Neighbours of a node in the mean up to which rows are short."""


class Links(NamedTuple):
    """A sparse matrix in CSR form, and its rows, the longest first."""

    start: Tensor
    end: Tensor
    weight: Tensor
    order: Tensor
    near: int
    """Neighbours that are gathered together, for so many `columns`."""
    columns: int

    @classmethod
    def of(cls, matrix: sp.csr_array, device: torch.device) -> Links:
        """A SciPy matrix on the device."""
        links = to_device(matrix, device)
        longest = np.argsort(-np.diff(matrix.indptr), kind="stable").astype(np.int32)
        return cls(
            links.crow_indices(),
            links.col_indices(),
            links.values(),
            torch.from_numpy(longest).to(device),
            *((8, 256) if matrix.nnz <= SHORT * matrix.shape[0] else (32, 64)),
        )


@triton.jit
def _add_product(
    start,
    end,
    weight,
    order,
    values,
    target,
    nodes,
    keep,
    share,
    source,
    width,
    NEAR: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.load(order + tl.program_id(0)).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    total = tl.zeros([COLUMNS], dtype=tl.float32)
    first = tl.load(start + row)
    last = tl.load(start + row + 1)
    for place in range(first, last, NEAR):
        entry = place + tl.arange(0, NEAR)
        there = entry < last
        neighbour = tl.load(end + entry, mask=there, other=0).to(tl.int64)
        scale = tl.load(weight + entry, mask=there, other=0.0)
        near = values + neighbour[:, None] * width + column[None, :]
        gathered = tl.load(near, mask=there[:, None] & inside[None, :], other=0.0)
        total += tl.sum(scale[:, None] * gathered, axis=0)
    here = target + row * width + column
    own = tl.load(nodes + column, mask=inside, other=-1) == row
    before = tl.load(here, mask=inside, other=0.0)
    after = keep * before + share * total + tl.where(own, source, 0.0)
    tl.store(here, after, mask=inside)


def add_product_(
    target: Tensor,
    links: Links,
    values: Tensor,
    nodes: Tensor,
    keep: float,
    share: float,
    source: float,
) -> None:
    """Make `target` [V, b] keep * target + share * links @ values + source * E.

    E is 1 where node nodes[j] meets column j, 0 elsewhere.
    """
    count, width = values.shape
    _add_product[(count, triton.cdiv(width, links.columns))](
        links.start,
        links.end,
        links.weight,
        links.order,
        values,
        target,
        nodes,
        keep,
        share,
        source,
        width,
        NEAR=links.near,
        COLUMNS=links.columns,
        num_warps=1,
    )


def product(links: Links, values: Tensor) -> Tensor:
    """The product with `values` [V, D]."""
    values = values.contiguous()
    found = torch.zeros_like(values)
    nobody = torch.full((values.shape[1],), -1, device=values.device)
    add_product_(found, links, values, nobody, 0.0, 1.0, 0.0)
    return found
