"""Top-k mode: scores of a block of nodes with the few nodes that some relation lists.

A pair that no relation lists has nothing that speaks for it and is no candidate, here as in exact
mode. Ties matter only among those who score at least as high as the last that is chosen, so the
relation that breaks them is asked for these alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.capped_rows import CappedRows
from xtcl.relations.halving import in_blocks
from xtcl.relations.nearest.on_device.links import Links
from xtcl.relations.pattern_rows import all_nodes
from xtcl.relations.relation import Relation
from xtcl.sampling.listed import listed_pairs
from xtcl.sampling.scored import NOBODY, Best, Scored
from xtcl.sampling.shuffle import Shuffle, tie_keys


def listed_scores(
    rows: CappedRows,
    asked: Tensor,
    height: int,
    table: Tensor,
    shuffle: Shuffle,
    tie_break: Relation | None,
    unwanted: sp.csr_array | None,
    number: int,
) -> Iterator[Best]:
    """The `number` best of the listed nodes for those `asked` for, `height` at a time.

    Cost: O(b R cap log(b R cap)) a block of b nodes with R relations.
    """
    banned = None if unwanted is None else Links.of(unwanted, rows.device)
    with rows.over(asked, all_nodes(rows.num_nodes)) as passing:

        def best(nodes: Tensor) -> Best:
            row, node, code = listed_pairs(passing, nodes)
            score = table[code]
            if banned is not None:
                wanted = ~banned.hold(nodes, row, node)
                row, node, score = row[wanted], node[wanted], score[wanted]
            enough = score >= _least(row, score, len(nodes), number)[row]
            row, node, score = row[enough], node[enough], score[enough]
            similarity = None
            if tie_break is not None:
                similarity = passing.similarities(tie_break, nodes, row, node)
            tie = tie_keys(shuffle.pairs(nodes[row], node), similarity)
            return Scored(
                in_columns(row, len(nodes), score, -torch.inf),
                in_columns(row, len(nodes), tie, 0.0),
                in_columns(row, len(nodes), node, NOBODY),
            ).best(number)

        yield from in_blocks(best, asked.to(rows.device), height)


def _least(row: Tensor, score: Tensor, height: int, number: int) -> Tensor:
    """The score of each row's last among the `number` best, -inf where they are fewer: [height]."""
    scores = in_columns(row, height, score, -torch.inf)
    if scores.shape[1] < number:
        return torch.full((height,), -torch.inf, device=row.device)
    return torch.topk(scores, number, dim=1).values[:, -1]


def in_columns(row: Tensor, height: int, values: Tensor, filling: float) -> Tensor:
    """A list [m], whose rows rise, as a matrix [height, longest row]."""
    length = torch.bincount(row, minlength=height)
    column = torch.arange(len(row), device=row.device) - (length.cumsum(0) - length)[row]
    shape = (height, max(int(length.max()), 1))
    matrix = torch.full(shape, filling, dtype=values.dtype, device=row.device)
    matrix[row, column] = values
    return matrix
