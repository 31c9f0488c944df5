"""Breadth-first search from many nodes at once, a bit for each of them.

A step asks every node who of its neighbours is within reach. With a float for each node that is
searched from, a step reads and writes 4 b V bytes several times; with a bit it is a thirty-second
of that, and what is new is written where it is new. After a step that found nothing new the others
ask nobody, and nobody has to wait for the device to say so.

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


@triton.jit
def _either(one, other):
    return one | other


@triton.jit
def _step(
    start,
    end,
    within,
    following,
    answer,
    changed,
    value,
    words,
    BLOCK: tl.constexpr,
    NEAR: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64)
    word = tl.arange(0, BLOCK)
    inside = word < words
    before = tl.load(within + node * words + word, mask=inside, other=0)
    after = before
    first = tl.load(start + node)
    last = tl.load(start + node + 1)
    last = tl.where(tl.load(changed) == 0, first, last)  # the step before found nothing
    for place in range(first, last, NEAR):
        entry = place + tl.arange(0, NEAR)
        there = entry < last
        neighbour = tl.load(end + entry, mask=there, other=0).to(tl.int64)
        near = within + neighbour[:, None] * words + word[None, :]
        reached = tl.load(near, mask=there[:, None] & inside[None, :], other=0)
        after |= tl.reduce(reached, 0, _either)
    tl.store(following + node * words + word, after, mask=inside)
    new = after & ~before
    if tl.max((new != 0).to(tl.int32), axis=0) > 0:
        bit = tl.arange(0, 32)
        fresh = (new[:, None] >> bit[None, :]) & 1
        where = (node * words + word[:, None]) * 32 + bit[None, :]
        tl.store(answer + where, tl.full([BLOCK, 32], 1, tl.int16) * value, mask=fresh == 1)
        tl.store(changed + 1, 1)


def steps_within_reach(start: Tensor, end: Tensor, nodes: Tensor, most: int) -> Tensor:
    """With how many of the steps 1 .. `most` a node is within reach of each of `nodes`.

    int16 [V, b], for a CSR matrix of links; `most` < 2^15.
    """
    asked = len(nodes)
    nodes = torch.cat([nodes, nodes[:1].expand(-asked % WORD)])  # whole words
    count, height = len(start) - 1, len(nodes)
    device, words = nodes.device, height // WORD
    block = triton.next_power_of_2(words)
    turn = torch.arange(height, device=device)
    own_bit = (1 << (turn % WORD)).to(torch.int32)  # that of 2^31 is the sign
    within = torch.zeros(count * words, dtype=torch.int32, device=device)
    within.scatter_add_(0, nodes * words + turn // WORD, own_bit)
    following = torch.empty_like(within)
    answer = torch.zeros(count, height, dtype=torch.int16, device=device)
    answer.scatter_(0, nodes[None], most)
    changed = torch.zeros(most + 1, dtype=torch.int32, device=device)
    changed[:1] = 1
    for step in range(1, most + 1):
        _step[(count,)](
            start,
            end,
            within,
            following,
            answer,
            changed[step - 1 :],
            most - step + 1,
            words,
            BLOCK=block,
            NEAR=NEAR,
            num_warps=max(1, min(block // WORD, 32)),
        )
        within, following = following, within
    return answer[:, :asked]
