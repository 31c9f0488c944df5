r"""How the neighbourhoods of two nodes overlap, counted exactly and without the link between them.

A pair's table has the sizes of :math:`B_i(u) \cap B_j(v)`, where :math:`B_i(u)` holds the nodes
within i links of u, u among them. Sets of nodes are bits of 64-bit words. Breadth-first searches
run from one block of nodes x at a time, and every pair adds what the block holds for it: memory is
one block's, whatever the number of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import is_among, pair_keys
from xtcl.relations.sparse import to_device

MOST_HOPS = 3
WORD = 64
SEARCH_NUMBERS = 2**22
"""Numbers in the dense matrix of one block's searches: 16 MiB."""
PAIR_WORDS = 2**18
"""Words held at once for each set of the pairs: 2 MiB, which stays in a processor's cache."""


class Reached(NamedTuple):
    """Which nodes x of a block each node reaches, as words [V, m]."""

    balls: list[Tensor]
    """For k = 0..hops, the x within k links."""
    twice: list[Tensor]
    """For k = 0..hops, the x that are within k - 1 links of two or more neighbours; none at 0."""


def ball_overlaps(graph: Graph, pairs: np.ndarray, hops: int, device: torch.device) -> Tensor:
    r""":math:`|B_i(u) \cap B_j(v)|` of pairs [2, n], int64 [n, hops + 1, hops + 1].

    Index i stands for i + 1 links and the last for all nodes, which gives the sizes of the balls
    themselves. A pair that is a link is counted in the graph without that link.

    Why the searches need not be repeated for every link: without the link, u reaches what its other
    neighbours reach in one link less, that is every x but those that only v reaches. The neighbours
    may still use the link themselves, but within two links only to get to v (or u, which counts
    anyway): hence at most three hops, and at three v is put right at the end.

    Cost O(hops V E + n V hops^2 / 64) time; memory O(V + n) and two blocks of fixed size.
    """
    if not 1 <= hops <= MOST_HOPS:
        raise UsageError(f"hops={hops} must be from 1 to {MOST_HOPS}.")
    keys = pair_keys(np.sort(pairs, axis=0), graph.num_nodes)
    linked = torch.from_numpy(is_among(keys, pair_keys(graph.edges, graph.num_nodes))).to(device)
    ends = torch.from_numpy(np.array(pairs, dtype=np.int64)).to(device)
    table = torch.zeros(ends.shape[1], hops + 1, hops + 1, dtype=torch.int64, device=device)
    for reached in _searches(graph, hops, device):
        step = max(1, PAIR_WORDS // reached.balls[0].shape[1])
        for start in range(0, ends.shape[1], step):
            part = slice(start, start + step)
            _add_overlaps(table[part], reached, ends[:, part], linked[part])
    if hops == MOST_HOPS:
        near = (linked & (table[:, 0, 1] > 0)).unsqueeze(1)  # a way of three links remains
        table[:, -2, :] += near
        table[:, :, -2] += near
    return table


def ring_counts(overlaps: Tensor) -> Tensor:
    """How many nodes lie i links from one end and j from the other, [n, (hops + 1)^2 - 1].

    Chamberlain and others' A_uv[i, j] and B_uv[i], with the ends themselves counted among the
    nearest, as they do: i and j are 1 to hops, or "further than hops", but not both further. Of the
    counts (i, j) and (j, i) the larger comes first, so that a pair has no first end.
    """
    rings = overlaps
    for axis in (1, 2):
        rings = torch.diff(rings, dim=axis, prepend=torch.zeros_like(rings.narrow(axis, 0, 1)))
    turned = rings.transpose(1, 2)
    couples = rings.maximum(turned).triu() + rings.minimum(turned).tril(-1)
    return couples.flatten(start_dim=1)[:, :-1]


def _searches(graph: Graph, hops: int, device: torch.device) -> Iterator[Reached]:
    """Searches from every node x, one block of them at a time."""
    adjacency = to_device(graph.adjacency, device)
    nodes = graph.num_nodes
    columns = WORD * max(1, min(SEARCH_NUMBERS // nodes, nodes + WORD - 1) // WORD)
    for start in range(0, nodes, columns):
        sources = torch.arange(start, min(start + columns, nodes), device=device)
        own = torch.zeros(nodes, columns, device=device)
        own[sources, sources - start] = 1.0
        balls, twice = [pack(own > 0)], [pack(own > 1)]
        ball = own
        for _ in range(hops):
            ways = adjacency @ ball
            ball = ((ways + own) > 0).float()
            balls.append(pack(ball > 0))
            twice.append(pack(ways > 1))
        yield Reached(balls, twice)


def _add_overlaps(table: Tensor, reached: Reached, ends: Tensor, linked: Tensor) -> None:
    """Add to the `table` of some pairs what one block of nodes holds for them."""
    u, v = ends
    removed = -linked.long().unsqueeze(1)  # all bits where the link goes, none elsewhere
    balls = [_left(reached, u, v, removed), _left(reached, v, u, removed)]
    hops = len(balls[0])
    for i in range(hops):
        table[:, i, hops] += count_bits(balls[0][i])
        table[:, hops, i] += count_bits(balls[1][i])
        for j in range(hops):
            table[:, i, j] += count_bits(balls[0][i] & balls[1][j])


def _left(reached: Reached, u: Tensor, v: Tensor, removed: Tensor) -> list[Tensor]:
    """The balls of u without the link to v, for 1..hops; at three hops v itself is missing."""
    own = reached.balls[0][u]
    found = []
    for hop in range(1, len(reached.balls)):
        only_v = reached.balls[hop - 1][v] & ~reached.twice[hop][u]
        if hop == MOST_HOPS:
            only_v |= reached.balls[0][v]
        found.append((reached.balls[hop][u] & ~(only_v & removed)) | own)
    return found


def pack(bits: Tensor) -> Tensor:
    """Booleans [V, c] as words [V, c / 64]; which bit a column gets is the same in every call."""
    parts = bits.view(len(bits), 8, -1)
    octets = torch.zeros_like(parts[:, 0], dtype=torch.uint8)
    for place in range(8):
        octets |= parts[:, place].to(torch.uint8) << place
    return octets.view(torch.int64)


def count_bits(words: Tensor) -> Tensor:
    """How many bits are set in each row of words [n, m]: in pairs, fours, eights, and all."""
    words = words - (words >> 1 & 0x5555555555555555)
    words = (words & 0x3333333333333333) + (words >> 2 & 0x3333333333333333)
    words = words + (words >> 4) & 0x0F0F0F0F0F0F0F0F
    return (words * 0x0101010101010101 >> 56).sum(dim=1)
