"""The pairs of a block of nodes that are above for some relation, with their pattern codes.

They are few: one pair in a hundred for each relation, or no more than the cap. Exact rows are
encoded whole and then looked through; capped rows come as lists, one a relation, and are merged.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from xtcl.relations.capped_rows import CappedRows
from xtcl.relations.pattern_rows import PatternRows
from xtcl.sampling.patterns import pattern_codes


class Listed(NamedTuple):
    """Pairs row by row: the place of u in the block, v, and a code that is not 0; each [m]."""

    row: Tensor
    node: Tensor
    code: Tensor


def listed_pairs(
    rows: PatternRows | CappedRows, nodes: Tensor, candidates: Tensor | None = None
) -> Listed:
    """The pairs of `nodes` with all nodes, or with `candidates`, that have a bit set."""
    if isinstance(rows, CappedRows):
        return _merged(rows, nodes, candidates)
    codes = pattern_codes(rows, nodes, candidates)
    row, column = torch.nonzero(codes, as_tuple=True)
    node = column if candidates is None else candidates[column]
    return Listed(row, node, codes[row, column])


def _merged(rows: CappedRows, nodes: Tensor, candidates: Tensor | None) -> Listed:
    """The sum of the relations' digits over all pairs that one of them lists. O(m log m)."""
    base = len(rows.quantiles) + 1
    keys, digits = [], []
    among = None
    if candidates is not None:
        among = torch.zeros(rows.num_nodes, dtype=torch.bool, device=rows.device)
        among[candidates] = True
    for position, lists in enumerate(rows.lists(nodes)):
        key = lists.row * rows.num_nodes + lists.node
        digit = lists.level.long() * base**position
        chosen = slice(None) if among is None else among[lists.node]
        keys.append(key[chosen])
        digits.append(digit[chosen])
    pairs, place = torch.unique(torch.cat(keys), return_inverse=True)
    code = torch.zeros_like(pairs).index_add_(0, place, torch.cat(digits))
    return Listed(pairs // rows.num_nodes, pairs % rows.num_nodes, code)
