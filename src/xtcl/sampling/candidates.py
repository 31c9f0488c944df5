"""The pairs of a block of nodes that are above for some relation, with their pattern codes.

They are few: one pair in a hundred for each relation, or no more than the cap. Exact rows are
encoded whole and then looked through; capped rows come as lists, one a relation, and are merged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.blocks import run_in_blocks
from xtcl.relations.relation import Relation
from xtcl.relations.rows import DenseRows, all_nodes
from xtcl.relations.sparse import CSRGraph, dense_rows, to_device
from xtcl.relations.topk_rows import TopKRows
from xtcl.sampling.patterns import encode, looked_up, pattern_codes


class Listed(NamedTuple):
    """Pairs row by row: the place of u in the block, v, and a code that is not 0; each [m]."""

    row: Tensor
    node: Tensor
    code: Tensor


def listed_pairs(
    rows: DenseRows | TopKRows, nodes: Tensor, candidates: Tensor | None = None
) -> Listed:
    """The pairs of `nodes` with all nodes, or with `candidates`, that have a bit set."""
    if isinstance(rows, TopKRows):
        return _merged(rows, nodes, candidates)
    codes = pattern_codes(rows, nodes, candidates)
    row, column = torch.nonzero(codes, as_tuple=True)
    node = column if candidates is None else candidates[column]
    return Listed(row, node, codes[row, column])


def _merged(rows: TopKRows, nodes: Tensor, candidates: Tensor | None) -> Listed:
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


# Top-k mode: scores of a block of nodes with the few nodes that some relation lists.
#
# A pair that no relation lists has nothing that speaks for it and is no candidate, here as in
# exact
# mode. Ties matter only among those who score at least as high as the last that is chosen, so the
# relation that breaks them is asked for these alone.


def listed_scores(
    rows: TopKRows,
    asked: Tensor,
    height: int,
    table: Tensor,
    shuffle: Shuffle,
    tie_break: Relation | None,
    unwanted: sp.csr_array | None,
    number: int,
) -> Iterator[TopB]:
    """The `number` best of the listed nodes for those `asked` for, `height` at a time.

    Cost: O(b R cap log(b R cap)) a block of b nodes with R relations.
    """
    banned = None if unwanted is None else CSRGraph.from_scipy(unwanted, rows.device)
    with rows.over(asked, all_nodes(rows.num_nodes)) as passing:

        def best(nodes: Tensor) -> TopB:
            row, node, code = listed_pairs(passing, nodes)
            score = table[code]
            if banned is not None:
                wanted = ~banned.has_edges(nodes, row, node)
                row, node, score = row[wanted], node[wanted], score[wanted]
            enough = score >= _least(row, score, len(nodes), number)[row]
            row, node, score = row[enough], node[enough], score[enough]
            similarity = None
            if tie_break is not None:
                similarity = passing.similarities(tie_break, nodes, row, node)
            tie = tie_keys(shuffle.pairs(nodes[row], node), similarity)
            return Candidates(
                padded_columns(row, len(nodes), score, -torch.inf),
                padded_columns(row, len(nodes), tie, 0.0),
                padded_columns(row, len(nodes), node, NO_NODE),
            ).best(number)

        yield from run_in_blocks(best, asked.to(rows.device), height)


def _least(row: Tensor, score: Tensor, height: int, number: int) -> Tensor:
    """The score of each row's last among the `number` best, -inf where they are fewer: [height]."""
    scores = padded_columns(row, height, score, -torch.inf)
    if scores.shape[1] < number:
        return torch.full((height,), -torch.inf, device=row.device)
    return torch.topk(scores, number, dim=1).values[:, -1]


def padded_columns(row: Tensor, height: int, values: Tensor, filling: float) -> Tensor:
    """A list [m], whose rows rise, as a matrix [height, longest row]."""
    length = torch.bincount(row, minlength=height)
    column = torch.arange(len(row), device=row.device) - (length.cumsum(0) - length)[row]
    shape = (height, max(int(length.max()), 1))
    matrix = torch.full(shape, filling, dtype=values.dtype, device=row.device)
    matrix[row, column] = values
    return matrix


NO_NODE = -1


class TopB(NamedTuple):
    """The best candidates of a block of nodes, where they were found: nobody waits for them."""

    nodes: Tensor  # int64 [b, number]
    scores: Tensor  # float32 [b, number]


class Candidates(NamedTuple):
    """Candidates in columns: their score (-inf: none), what breaks ties, and who they are."""

    score: Tensor  # float32 [b, c]
    tie: Tensor  # float64 [b, c]
    node: Tensor | None  # int64 [b, c]; None where column v is node v

    def best(self, number: int) -> TopB:
        """The `number` best of each row, best first; NOBODY where there are not so many."""
        wide = min(number, self.score.shape[1])
        place, score = _best(self.score, self.tie, wide)
        node = place if self.node is None else self.node.gather(1, place)
        node = node.masked_fill(torch.isneginf(score), NO_NODE)
        padding = (0, number - wide)
        return TopB(
            torch.nn.functional.pad(node, padding, value=NO_NODE),
            torch.nn.functional.pad(score, padding, value=-torch.inf),
        )


def _best(score: Tensor, tie: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Columns and scores of the `number` best of each row by (score, tie)."""
    cutoff = torch.topk(score, number, dim=1).values[:, -1:]
    # Ties matter only at the cut-off: whatever scores higher is in, whatever scores lower is out.
    key = torch.where(score > cutoff, torch.inf, torch.where(score == cutoff, tie, -torch.inf))
    chosen = torch.topk(key, number, dim=1).indices
    best_score, best_tie = score.gather(1, chosen), tie.gather(1, chosen)
    by_tie = torch.argsort(best_tie, dim=1, descending=True, stable=True)
    by_score = torch.argsort(best_score.gather(1, by_tie), dim=1, descending=True, stable=True)
    order = by_tie.gather(1, by_score)
    best_score, chosen = best_score.gather(1, order), chosen.gather(1, order)
    return chosen, best_score


class Shuffle:
    """A random order of the nodes, started at another place for every query node."""

    def __init__(self, num_nodes: int, seed: int, device: torch.device) -> None:
        rng = np.random.default_rng([seed, num_nodes])
        self.num_nodes = num_nodes
        self.place = torch.from_numpy(rng.permutation(num_nodes)).to(device)
        self.start = torch.from_numpy(rng.integers(num_nodes, size=num_nodes)).to(device)

    def __call__(self, nodes: Tensor) -> Tensor:
        """Place of every node in the order of each query, [b, V] in [0, 1)."""
        return self._turned(self.place, self.start[nodes, None])

    def pairs(self, u: Tensor, v: Tensor) -> Tensor:
        """Place of each v in the order of its u, [m] in [0, 1)."""
        return self._turned(self.place[v], self.start[u])

    def _turned(self, place: Tensor, start: Tensor) -> Tensor:
        return ((place + start) % self.num_nodes).double() / self.num_nodes


def tie_keys(chance: Tensor, similarity: Tensor | None) -> Tensor:
    """What ranks equals: the similarity of the relation that breaks ties, then chance."""
    if similarity is None:
        return chance
    # The shuffle decides between similarities that differ by less than 2^-26.
    return similarity.double() + chance * 2.0**-26


def whole_scores(
    rows: DenseRows,
    asked: Tensor,
    height: int,
    table: Tensor,
    shuffle: Shuffle,
    tie_break: Relation | None,
    unwanted: sp.csr_array | None,
    number: int,
) -> Iterator[TopB]:
    """The `number` best of all nodes for those `asked` for, `height` at a time.

    Cost: O(b V) for a block of b nodes.
    """
    banned = None if unwanted is None else to_device(unwanted, rows.device)
    own = tie_break in rows.relations
    others = None if tie_break is None or own else tie_break.on(rows.view)
    with rows.over(asked, all_nodes(rows.num_nodes)) as passing:

        def best(nodes: Tensor) -> TopB:
            score, similarity = block_scores(passing, table, nodes, tie_break if own else None)
            if others is not None:
                similarity = others(nodes)
            if banned is not None:
                score.masked_fill_(dense_rows(banned, nodes) > 0, -torch.inf)
            return Candidates(score, tie_keys(shuffle(nodes), similarity), None).best(number)

        yield from run_in_blocks(best, asked.to(rows.device), height)


def block_scores(
    rows: DenseRows, table: Tensor, nodes: Tensor, keep: Relation | None = None
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
