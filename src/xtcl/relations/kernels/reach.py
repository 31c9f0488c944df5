"""Breadth-first search from many nodes at once, a bit for each of them.

A step asks every node who of its neighbours is within reach. With a float for each node that is
searched from, a step reads and writes 4 b V bytes several times; with a bit it is a thirty-second
of that, and what is new is written where it is new.

Cost: O(b (E + V) / 32) words for a step from b nodes, and 2 b V bytes for the answer.
Citation: Then, Kaufmann, Chirigati, Hoang-Vu, Pham, Kemper, Neumann and Vo, "The More the Merrier:
Efficient Multi-Source Graph Traversal", VLDB 2014.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

WORD = 32
NEAR = 16
"""Neighbours of a node that are asked together."""
LOOK_EVERY = 4
"""Steps before the GPU is asked whether anything was new: asking costs about one."""


@triton.jit
def _either(one, other):
    return one | other


@triton.jit
def _step(
    start, end, within, following, answer, changed, value, WORDS: tl.constexpr, NEAR: tl.constexpr
):
    node = tl.program_id(0).to(tl.int64)
    word = tl.arange(0, WORDS)
    before = tl.load(within + node * WORDS + word)
    after = before
    first = tl.load(start + node)
    last = tl.load(start + node + 1)
    for place in range(first, last, NEAR):
        entry = place + tl.arange(0, NEAR)
        there = entry < last
        neighbour = tl.load(end + entry, mask=there, other=0).to(tl.int64)
        near = within + neighbour[:, None] * WORDS + word[None, :]
        after |= tl.reduce(tl.load(near, mask=there[:, None], other=0), 0, _either)
    tl.store(following + node * WORDS + word, after)
    new = after & ~before
    if tl.max((new != 0).to(tl.int32), axis=0) > 0:
        bit = tl.arange(0, 32)
        fresh = (new[:, None] >> bit[None, :]) & 1
        where = (node * WORDS + word[:, None]) * 32 + bit[None, :]
        tl.store(answer + where, tl.full([WORDS, 32], 1, tl.int16) * value, mask=fresh == 1)
        tl.store(changed, 1)


def steps_within_reach(start: Tensor, end: Tensor, nodes: Tensor, most: int) -> Tensor:
    """With how many of the steps 1 .. `most` a node is within reach of each of `nodes`.

    int16 [V, b], for a CSR matrix of links and b = 32, 64, 128, ... nodes; `most` < 2^15.
    """
    count, height = len(start) - 1, len(nodes)
    device, words = nodes.device, height // WORD
    turn = torch.arange(height, device=device)
    own_bit = (1 << (turn % WORD)).to(torch.int32)  # that of 2^31 is the sign
    within = torch.zeros(count * words, dtype=torch.int32, device=device)
    within.scatter_add_(0, nodes * words + turn // WORD, own_bit)
    following = torch.empty_like(within)
    answer = torch.zeros(count, height, dtype=torch.int16, device=device)
    answer[nodes, turn] = most
    changed = torch.zeros(1, dtype=torch.int32, device=device)
    for step in range(1, most + 1):
        _step[(count,)](
            start,
            end,
            within,
            following,
            answer,
            changed,
            most - step + 1,
            WORDS=words,
            NEAR=NEAR,
            num_warps=1,
        )
        within, following = following, within
        if step % LOOK_EVERY == 0:
            if not changed.item():
                break
            changed.zero_()
    return answer
