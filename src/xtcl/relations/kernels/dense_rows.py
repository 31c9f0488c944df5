"""Rows of a sparse matrix with all their zeros.

Listing the entries of some rows takes their number, and so makes the GPU be waited for. Here every
row writes its own.

Cost: O(b V) to clear, and the entries of b rows.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

NEAR = 32
"""Entries that are written together."""


@triton.jit
def _write(start, end, value, nodes, rows, width, NEAR: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    node = tl.load(nodes + row)
    first = tl.load(start + node)
    last = tl.load(start + node + 1)
    for place in range(first, last, NEAR):
        entry = place + tl.arange(0, NEAR)
        there = entry < last
        column = tl.load(end + entry, mask=there, other=0)
        found = tl.load(value + entry, mask=there, other=0.0)
        tl.store(rows + row * width + column, found, mask=there)


def dense_rows(matrix: Tensor, nodes: Tensor) -> Tensor:
    """The rows `nodes` of a torch CSR tensor of float32, [b, V]."""
    rows = torch.zeros(len(nodes), matrix.shape[1], device=nodes.device)
    parts = matrix.crow_indices(), matrix.col_indices(), matrix.values()
    _write[(len(nodes),)](*parts, nodes, rows, rows.shape[1], NEAR=NEAR, num_warps=1)
    return rows
