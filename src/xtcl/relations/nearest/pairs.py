"""Similarities of single pairs, without the rows they lie in.

Factors give any pair's cosine, degrees and common neighbours what follows from them. PageRank and
graph distance are computed in whole rows where the graph is small. Where it is not, the best of a
row are known, several times the cap, whatever the quantile, and what is not among them counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from xtcl.relations.block_height import block_height
from xtcl.relations.factors import unit_rows
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.nearest.graph_distance import SEARCHES
from xtcl.relations.nearest.registry import FACTORS, nearest
from xtcl.relations.nearest.rows import Nearest
from xtcl.relations.nearest.shared_neighbours import BY_PAIR
from xtcl.relations.relation import Relation, SimilarityRows
from xtcl.relations.view import TrainingView

PairSimilarities = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Takes nodes u [b]; of pairs the place of u in them and v, each [m]: gives s(u, v), float32 [m].
"""

SMALL = 2**15
"""Nodes up to which a whole row of PageRank takes no longer than a wide list."""

WIDER = 4
"""How many times the cap is known of a row: links of high degree are far down in it. With the cap
alone AUC on Photo was lower by 0.14."""

CHUNK = 2**14
"""Pairs whose factors are multiplied at a time."""


def pair_similarities(
    relation: Relation, view: TrainingView, cap: int, index_past: int | None = None
) -> PairSimilarities:
    """Similarities of any pairs of a relation, as top-k mode knows them."""
    by_pair = BY_PAIR.get(type(relation))
    if by_pair is not None:
        similarity = by_pair(relation, view)
        return lambda nodes, row, partner: similarity(nodes[row], partner)
    factors, most = FACTORS.get(type(relation)), view.num_nodes - 1
    if factors is not None and cap < most:
        return _from_factors(unit_rows(factors(relation, view, cap, index_past)))
    if view.num_nodes <= SMALL:
        return _from_whole_rows(_as_listed(relation, cap, most).on(view), view)
    lists = nearest(relation, view, 0.0, min(WIDER * cap, most), index_past=index_past)
    return _from_lists(lists, view.num_nodes)


def _as_listed(relation: Relation, cap: int, most: int) -> Relation:
    """The relation with the diameter that its lists go by."""
    if type(relation) is GraphDistance and relation.searches is None and cap < most:
        return GraphDistance(searches=SEARCHES)
    return relation


def _from_whole_rows(rows: SimilarityRows, view: TrainingView) -> PairSimilarities:
    """Looked up in rows that are made for it. Cost: that of the rows of the nodes."""
    height = block_height(view.num_nodes, view.device)

    def of(nodes: Tensor, row: Tensor, partner: Tensor) -> Tensor:
        found = torch.zeros(len(row), device=row.device)
        for first in range(0, len(nodes), height):
            block = rows(nodes[first : first + height])
            place = torch.nonzero((row >= first) & (row < first + height)).flatten()
            found[place] = block[row[place] - first, partner[place]]
        return found

    return of


def _from_factors(rows: Tensor) -> PairSimilarities:
    """Cosines. Cost: O(m D)."""

    def of(nodes: Tensor, row: Tensor, partner: Tensor) -> Tensor:
        parts = zip(torch.split(nodes[row], CHUNK), torch.split(partner, CHUNK), strict=True)
        return torch.cat([(rows[u] * rows[v]).sum(dim=1).clamp_(0.0, 1.0) for u, v in parts])

    return of


def _from_lists(find: Nearest, num_nodes: int) -> PairSimilarities:
    """Looked up. Cost: that of the lists of the nodes, and O(m log n) for n entries in them."""

    def of(nodes: Tensor, row: Tensor, partner: Tensor) -> Tensor:
        lists = find(nodes)
        known = lists.rows * num_nodes + lists.nodes
        if not len(known):
            return torch.zeros(len(row), device=row.device)
        wanted = row * num_nodes + partner
        place = torch.searchsorted(known, wanted).clamp_max_(len(known) - 1)
        return torch.where(known[place] == wanted, lists.similarities[place], 0.0)

    return of
