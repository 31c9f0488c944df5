"""Paths of two steps from some nodes to all, counted where they end.

The plain version lists the paths: it has to know how many there are, and keeps some hundred bytes
of each. Here every path adds 1 to the place where it ends. Sums of ones are exact in any order.

Cost: O(b V) to clear, and the paths of b nodes.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

PARTS = 8
"""Programs that share the neighbours of a node: those of a hub would be waited for."""
NEAR = 32
"""Ends of paths that are counted together."""


@triton.jit
def _walk(start, end, nodes, count, width, PARTS: tl.constexpr, NEAR: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    node = tl.load(nodes + row)
    last = tl.load(start + node + 1)
    for first in range(tl.load(start + node) + tl.program_id(1), last, PARTS):
        between = tl.load(end + first)
        until = tl.load(start + between + 1)
        for place in range(tl.load(start + between), until, NEAR):
            entry = place + tl.arange(0, NEAR)
            there = entry < until
            column = tl.load(end + entry, mask=there, other=0)
            tl.atomic_add(count + row * width + column, 1.0, mask=there, sem="relaxed")


def count_paths(start: Tensor, end: Tensor, nodes: Tensor) -> Tensor:
    """How many paths of two steps lead from each of `nodes` to each node, float32 [b, V]."""
    count = torch.zeros(len(nodes), len(start) - 1, device=nodes.device)
    _walk[(len(nodes), PARTS)](
        start, end, nodes, count, count.shape[1], PARTS=PARTS, NEAR=NEAR, num_warps=1
    )
    return count
