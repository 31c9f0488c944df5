"""Triton kernels for a GPU. Each is tested against an implementation in torch or SciPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
import triton
import triton.language as tl
from torch import Tensor

from xtcl.relations.sparse import to_device

# Rows of a sparse matrix with all their zeros.
#
# A list of the entries of some rows needs their count, which would synchronise host and GPU. Here
# every row writes its own entries.
#
# Cost: O(b V) to clear, and the entries of b rows.


NEAR_ENTRIES = 32
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


def dense_rows_kernel(matrix: Tensor, nodes: Tensor) -> Tensor:
    """The rows `nodes` of a torch CSR tensor of float32, [b, V]."""
    rows = torch.zeros(len(nodes), matrix.shape[1], device=nodes.device)
    parts = matrix.crow_indices(), matrix.col_indices(), matrix.values()
    _write[(len(nodes),)](*parts, nodes, rows, rows.shape[1], NEAR=NEAR_ENTRIES, num_warps=1)
    return rows


# Mutual information of neighbourhoods, written over the numbers of shared neighbours.
#
# The torch version lists the pairs that share neighbours and takes their logarithms, some hundred
# bytes a pair. Here a pair is read, tested and written by one thread.
#
# Cost: one pass over [b, V], and four logarithms for each pair in a block with a nonzero pair.


_COLUMNS = 256
"""Pairs of one program (a block). It skips the logarithms where none shares neighbours."""


@triton.jit
def _cell(joint, left, right, count):
    """P log(p / (p_u p_v)) of one cell; smaller than one node in `count` it is empty."""
    filled = joint > 0.5 / count
    ratio = joint / tl.where(filled, left * right, 1.0)
    return tl.where(filled, joint, 0.0) * tl.log(tl.where(filled, ratio, 1.0))


@triton.jit
def _inform(values, nodes, kind, kinds, disjoint, count, width, num_kinds, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column < width
    here = values + row * width + column
    shared = tl.load(here, mask=inside, other=0.0)
    own = tl.load(kind + tl.load(nodes + row))
    other = tl.load(kind + column, mask=inside, other=0)
    value = tl.load(disjoint + own * num_kinds + other, mask=inside, other=0.0)
    if tl.max(shared, axis=0) > 0:
        total = tl.load(count)
        both = shared.to(tl.float64)
        degree_u, degree_v = tl.load(kinds + own), tl.load(kinds + other)
        p_u, p_v, p = degree_u / total, degree_v / total, both / total
        found = _cell(p, p_u, p_v, total)
        found += _cell(p_u - p, p_u, 1 - p_v, total)
        found += _cell(p_v - p, 1 - p_u, p_v, total)
        found += _cell(1 - p_u - p_v + p, 1 - p_u, 1 - p_v, total)
        independent = both * total == degree_u * degree_v
        found = tl.where(independent, 0.0, tl.maximum(found, 0.0))
        value = tl.where(shared > 0, found.to(tl.float32), value)
    tl.store(here, value, mask=inside)


def inform_(
    shared: Tensor, nodes: Tensor, kind: Tensor, kinds: Tensor, disjoint: Tensor, count: Tensor
) -> None:
    """Turn the neighbours `shared` [b, V] by `nodes` with all nodes into mutual information.

    Node v has the degree kinds[kind[v]], float64; `disjoint` [K, K] are the values of pairs that
    share nothing, and `count` is V as a float64 tensor.
    """
    height, width = shared.shape
    _inform[(height, triton.cdiv(width, _COLUMNS))](
        shared,
        nodes,
        kind,
        kinds,
        disjoint,
        count,
        width,
        len(kinds),
        COLUMNS=_COLUMNS,
        num_warps=4,
    )


# Paths of two steps from some nodes to all, counted by the node where they end.
#
# The torch version lists the paths: it needs their number, and stores some hundred bytes of each.
# Here every path adds 1 to the count of its end. Sums of ones are exact in any order.
#
# Cost: O(b V) to clear, and the paths of b nodes.


PARTS = 8
"""Programs that share the neighbours of a node, to balance the load of hubs."""


NEAR_PATHS = 32
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
        start, end, nodes, count, count.shape[1], PARTS=PARTS, NEAR=NEAR_PATHS, num_warps=1
    )
    return count


# A sparse matrix times a dense one, summed in a fixed order.
#
# cuSPARSE divides long rows among blocks of threads that add to the same place. So the last bit of
# a sum differs from run to run, and a pair at its threshold is above in one run and below in the
# next. Here one program computes each sum, from a few neighbours at a time, in their order.
#
# Programs of the same columns run side by side, so that what they gather stays in the cache. Those
# of nodes with many neighbours come first, to balance the load.
#
# Cost: O(E + V) a column, and one pass over the result.


SHORT = 16
"""Neighbours of a node in the mean up to which rows are short."""


class LinkSegments(NamedTuple):
    """A sparse matrix in CSR form, and its rows, the longest first.

    Not a `CSRGraph`: the kernel reads short indices, and needs the order and the sizes below.
    """

    start: Tensor
    end: Tensor
    weight: Tensor
    order: Tensor
    near: int
    """Neighbours that are gathered together, for so many `columns`."""
    columns: int

    @classmethod
    def of(cls, matrix: sp.csr_array, device: torch.device) -> LinkSegments:
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
    links: LinkSegments,
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


def sparse_product_kernel(links: LinkSegments, values: Tensor) -> Tensor:
    """The product with `values` [V, D]."""
    values = values.contiguous()
    found = torch.zeros_like(values)
    no_source = torch.full((values.shape[1],), -1, device=values.device)
    add_product_(found, links, values, no_source, 0.0, 1.0, 0.0)
    return found


# Breadth-first search from many nodes at once, with a bit for each source.
#
# A step reads each node's neighbours, and a node is within reach of a source if a neighbour is.
# With a float for each source a step reads and writes 4 b V bytes several times. A bit takes 1/32
# of that, and the answer is written only for pairs that are new. After a step without new nodes
# the programs read no neighbours, so the host need not wait for the device between steps.
#
# Cost: O(b (E + V) / 32) words for a step from b nodes, and 2 b V bytes for the answer.
# Citation: Then, Kaufmann, Chirigati, Hoang-Vu, Pham, Kemper, Neumann and Vo, "The More the
# Merrier: Efficient Multi-Source Graph Traversal", VLDB 2014.


_WORD = 32


NEAR_REACH = 16
"""Neighbours of a node that are read together."""


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


def steps_within_reach_by_node(start: Tensor, end: Tensor, nodes: Tensor, max_steps: int) -> Tensor:
    """`BitParallelBFS.steps_within_reach` with a row for every node of the graph: int16 [V, b].

    `start` and `end` are those of a CSR matrix of links; `max_steps` < 2^15.
    """
    asked = len(nodes)
    nodes = torch.cat([nodes, nodes[:1].expand(-asked % _WORD)])  # whole words
    count, height = len(start) - 1, len(nodes)
    device, words = nodes.device, height // _WORD
    block = triton.next_power_of_2(words)
    source = torch.arange(height, device=device)
    own_bit = (1 << (source % _WORD)).to(torch.int32)  # that of 2^31 is the sign
    within = torch.zeros(count * words, dtype=torch.int32, device=device)
    within.scatter_add_(0, nodes * words + source // _WORD, own_bit)
    following = torch.empty_like(within)
    answer = torch.zeros(count, height, dtype=torch.int16, device=device)
    answer.scatter_(0, nodes[None], max_steps)
    changed = torch.zeros(max_steps + 1, dtype=torch.int32, device=device)
    changed[:1] = 1
    for step in range(1, max_steps + 1):
        _step[(count,)](
            start,
            end,
            within,
            following,
            answer,
            changed[step - 1 :],
            max_steps - step + 1,
            words,
            BLOCK=block,
            NEAR=NEAR_REACH,
            num_warps=max(1, min(block // _WORD, 32)),
        )
        within, following = following, within
    return answer[:, :asked]


# Levels of a row, with the row read once.
#
# A radix selection, as in `torch.topk`, reads a row several times and sorts what it found; on an
# H200 that takes twenty times as long as reading it once. Here a row stays in registers, and its
# threshold is found bit by bit from the highest: similarities are in [0, 1], where floats have the
# order of their bits. (Two bits at a time took half as long again.)
#
# Cost: one pass over [b, V], and up to 30 counts of what was read.


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
        # In most sparse rows no more than `rank` are > 0: all of these are above.
        step = tl.where(positive <= rank, 0, 1 << 29)  # the highest bit of 1.0
        while step > 0:
            tried = reached + step
            count = tl.sum((bits >= tried).to(tl.int32), axis=0)
            reached = tl.where(count >= rank, tried, reached)
            # As many as the rank: any threshold between them and the rest gives the same levels.
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
    """The ranks on the device, copied once: each copy would make the host wait for the GPU."""
    return torch.tensor(ranks, dtype=torch.int32, device=device)
