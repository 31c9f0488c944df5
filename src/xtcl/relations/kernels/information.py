"""Mutual information of neighbourhoods, put in the place of what they have in common.

The plain version lists the pairs that share neighbours and takes their logarithms, some hundred
bytes a pair. Here a pair is read, judged and written by one thread.

Cost: one pass over [b, V], and four logarithms a pair in the company of one that shares something.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

COLUMNS = 256
"""Pairs of one program, which skips the logarithms where none of them shares anything."""


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
    _inform[(height, triton.cdiv(width, COLUMNS))](
        shared, nodes, kind, kinds, disjoint, count, width, len(kinds), COLUMNS=COLUMNS, num_warps=4
    )
