"""Levels of a row, with the row read once.

A selection by digits, as `torch.topk` does it, reads a row several times and sorts what it found;
on an H200 that is twenty times what one reading takes. Here a row stays in registers, and its
threshold is found bit by bit from the top: similarities are in [0, 1], and there floats are in the
order of their bits. (Two bits at a time took half as long again.)

Cost: one pass over [b, V], and up to 30 counts of what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

VALUES = 32
"""Similarities of a row in one thread, of a thousand at most."""
SMALLEST = tl.constexpr(0x00800000)
"""The bits of the smallest normal number."""


@triton.jit
def _row_levels(similarities, nodes, ranks, levels, width, num_ranks, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(similarities + row * width + column, mask=inside, other=0.0)
    bits = value.to(tl.int32, bitcast=True)
    bits = tl.where(column == tl.load(nodes + row), 0, bits)  # a node itself does not count
    level = tl.zeros([BLOCK], dtype=tl.int32)
    positive = tl.sum((bits >= SMALLEST).to(tl.int32), axis=0)
    for place in range(num_ranks):
        rank = tl.load(ranks + place)
        reached = 0
        # In most sparse rows no more are > 0 than the rank asks for: all of these are above.
        step = tl.where(positive <= rank, 0, 1 << 29)  # the highest bit of 1.0
        while step > 0:
            tried = reached + step
            count = tl.sum((bits >= tried).to(tl.int32), axis=0)
            reached = tl.where(count >= rank, tried, reached)
            # As many as the rank asks for: which value between them parts them from the rest does
            # not matter.
            step = tl.where(count == rank, 0, step >> 1)
        least = tl.maximum(reached, SMALLEST)  # what is above is > 0
        level += (bits >= least).to(tl.int32)
    tl.store(levels + row * width + column, level.to(tl.uint8), mask=inside)


def row_levels(similarities: Tensor, nodes: Tensor, ranks: Sequence[int]) -> Tensor:
    """How many of its row's `ranks`-th largest each pair reaches, uint8 [b, V]."""
    height, width = similarities.shape
    similarities = similarities.contiguous()
    found = torch.empty(height, width, dtype=torch.uint8, device=similarities.device)
    block = triton.next_power_of_2(width)
    _row_levels[(height,)](
        similarities,
        nodes,
        _on(similarities.device, tuple(ranks)),
        found,
        width,
        len(ranks),
        BLOCK=block,
        num_warps=max(1, min(block // (32 * VALUES), 32)),
    )
    return found


@cache
def _on(device: torch.device, ranks: tuple[int, ...]) -> Tensor:
    """The ranks where they are needed: sending them each time would make the GPU be waited for."""
    return torch.tensor(ranks, dtype=torch.int32, device=device)
