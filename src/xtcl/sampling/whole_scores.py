"""Exact mode: scores of a block of nodes with all nodes."""

from __future__ import annotations

from collections.abc import Iterator

import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.halving import in_blocks
from xtcl.relations.pattern_rows import PatternRows, all_nodes
from xtcl.relations.relation import Relation
from xtcl.relations.sparse import dense_rows, to_device
from xtcl.sampling.patterns import encode, looked_up
from xtcl.sampling.scored import Best, Scored
from xtcl.sampling.shuffle import Shuffle, tie_keys


def whole_scores(
    rows: PatternRows,
    asked: Tensor,
    height: int,
    table: Tensor,
    shuffle: Shuffle,
    tie_break: Relation | None,
    unwanted: sp.csr_array | None,
    number: int,
) -> Iterator[Best]:
    """The `number` best of all nodes for those `asked` for, `height` at a time.

    Cost: O(b V) for a block of b nodes.
    """
    banned = None if unwanted is None else to_device(unwanted, rows.device)
    own = tie_break in rows.relations
    others = None if tie_break is None or own else tie_break.on(rows.view)
    with rows.over(asked, all_nodes(rows.num_nodes)) as passing:

        def best(nodes: Tensor) -> Best:
            score, similarity = block_scores(passing, table, nodes, tie_break if own else None)
            if others is not None:
                similarity = others(nodes)
            if banned is not None:
                score.masked_fill_(dense_rows(banned, nodes) > 0, -torch.inf)
            return Scored(score, tie_keys(shuffle(nodes), similarity), None).best(number)

        yield from in_blocks(best, asked.to(rows.device), height)


def block_scores(
    rows: PatternRows, table: Tensor, nodes: Tensor, keep: Relation | None = None
) -> tuple[Tensor, Tensor | None]:
    """y_hat of all pairs of a block, [b, V]: the entry of `table` at the code of their pattern.

    Also the similarities of the relation `keep`, one of theirs.
    """
    kept: list[Tensor] = []

    def levels() -> Iterator[Tensor]:
        for relation, own in zip(rows.relations, rows.by_relation, strict=True):
            if relation == keep:
                similarities, level = own.both(nodes)
                kept.append(similarities)
                yield level
            else:
                yield own.levels(nodes)

    codes = encode(levels(), len(rows.relations), len(rows.quantiles))
    return looked_up(table, codes), kept[0] if kept else None
