"""Top-k mode: several relations bound to one view, asked together for short lists of above pairs.

Each row's above set is cut to its `cap` best, found without making the row where that is possible
(`relations.topk`). Time and memory grow like V cap, but for searches among factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from xtcl.relations.blocks import rows_per_block, run_in_blocks
from xtcl.relations.cosine import normalize_rows
from xtcl.relations.relation import Relation, SimilarityRows
from xtcl.relations.row_source import TopKSource
from xtcl.relations.rows import DenseRows, PairLevel
from xtcl.relations.sparse import LevelLists
from xtcl.relations.store.passes import Lists, lists_over
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.topk import TopK, TopKSearch, list_levels, list_thresholds, topk_search
from xtcl.relations.view import TrainingView

FEW = 0.1
"""Share of the nodes up to which a pass asks for too few rows to build an index for it alone."""


class TopKRows:
    """For a block of nodes: each relation's above pairs, cut to the `cap` best of every row.

    With a `store`, a pass (`over`) reads the lists that are there and keeps those that are not.
    """

    def __init__(
        self,
        relations: Sequence[Relation],
        view: TrainingView,
        quantiles: Sequence[float],
        cap: int,
        index_past: int | None = None,
        store: RelationStore | None = None,
    ) -> None:
        self.relations = tuple(relations)
        self.quantiles = tuple(quantiles)
        self.num_nodes = view.num_nodes
        self.device = view.device
        self.store = store
        self._view, self._cap, self._index_past = view, cap, index_past
        self._searched = [
            TopKSource(relation, view, self.quantiles, cap, index_past)
            for relation in self.relations
        ]
        self._by_relation: list[Lists] = [searched.lists for searched in self._searched]
        self._pairs: dict[Relation, PairSimilarities] = {}

    def bind(self) -> None:
        """Do now what all rows of a relation share, which ranks divide while all are here."""
        for searched in self._searched:
            _ = searched.search

    @property
    def index_recall(self) -> dict[str, float]:
        """By relation the share of the best that an index found, where one was asked so far."""
        return {
            searched.relation.name: searched.index_recall
            for searched in self._searched
            if searched.index_recall is not None
        }

    def lists(self, nodes: Tensor) -> Iterator[LevelLists]:
        """Yield the lists of `nodes` [b], relation by relation."""
        return (lists(nodes) for lists in self._by_relation)

    def similarities(
        self, relation: Relation, nodes: Tensor, row: Tensor, partner: Tensor
    ) -> Tensor:
        """s(u, v) of pairs, u = nodes[row]: float32 [m]; see `topk_pair_similarities`."""
        if relation not in self._pairs:
            self._pairs[relation] = topk_pair_similarities(
                relation, self._view, self._cap, self._index_past
            )
        return self._pairs[relation](nodes, row, partner)

    def standing(self, relation: Relation, u: int, v: int) -> PairLevel:
        """Where v stands in the row of u."""
        nodes, first = torch.tensor([u], device=self.device), torch.tensor([0], device=self.device)
        partner = torch.tensor([v], device=self.device)
        searched = self._searched[self.relations.index(relation)]
        lists = searched.search(nodes)
        settings = self.quantiles, self._cap, self.num_nodes
        reached = list_levels(lists, *settings)[lists.node == v]
        return PairLevel(
            float(self.similarities(relation, nodes, first, partner)[0]),
            tuple(list_thresholds(lists, *settings)[0].tolist()),
            int(reached.sum()),
        )

    @contextmanager
    def over(self, nodes: Tensor, whole: Tensor | None = None) -> Iterator[TopKRows]:
        """The rows for one pass over the blocks of `nodes`, which each relation is asked for once.

        What the store does not have is in it afterwards, unless the pass was broken off. Where the
        nodes are one rank's share of a `whole` pass, this decides how they are searched for, and
        the store may have them as part of that.
        """
        passing = copy(self)
        if len(nodes if whole is None else whole) <= FEW * self.num_nodes:
            passing._searched = [replace(searched, few_queries=True) for searched in self._searched]
        with ExitStack() as stack:
            if self.store is None:
                passing._by_relation = [searched.lists for searched in passing._searched]
            else:
                passes = [part.cpu().numpy() for part in (nodes, whole) if part is not None]
                passing._by_relation = [
                    stack.enter_context(lists_over(self.store, searched, *passes))
                    for searched in passing._searched
                ]
            yield passing

    def blocks(self, nodes: Tensor, height: int) -> Iterator[Tensor]:
        """`nodes`, if any, in blocks of `height` rows, on the device."""
        return iter(torch.split(nodes.to(self.device), height) if len(nodes) else ())


# Similarities of single pairs, without the rows they lie in.
#
# Factors give any pair's cosine, degrees and common neighbours what follows from them. PageRank
# and
# graph distance are computed in whole rows where the graph is small. Where it is not, the best of
# a
# row are known, several times the cap, whatever the quantile, and what is not among them counts as
# 0.


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


def topk_pair_similarities(
    relation: Relation, view: TrainingView, cap: int, index_past: int | None = None
) -> PairSimilarities:
    """Similarities of any pairs of a relation, as top-k mode knows them."""
    of_pairs = relation.pairs_on(view)
    if of_pairs is not None:
        return lambda nodes, row, partner: of_pairs(nodes[row], partner)
    num_nodes = view.num_nodes
    top = TopK.of(0.0, cap, num_nodes, index_past)
    # With room for all nodes the similarities are those of exact mode.
    shortened = cap < num_nodes - 1
    factors = relation.factors(view, top) if shortened else None
    if factors is not None:
        return _from_factors(normalize_rows(factors))
    if num_nodes <= SMALL:
        return _from_whole_rows((relation.in_topk_mode() if shortened else relation).on(view), view)
    wider = TopK.of(0.0, min(WIDER * cap, num_nodes - 1), num_nodes, index_past)
    return _from_lists(topk_search(relation, view, wider), num_nodes)


def _from_whole_rows(rows: SimilarityRows, view: TrainingView) -> PairSimilarities:
    """Looked up in rows that are made for it. Cost: that of the rows of the nodes."""
    height = rows_per_block(view.num_nodes, view.device)

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


def _from_lists(find: TopKSearch, num_nodes: int) -> PairSimilarities:
    """Looked up. Cost: that of the lists of the nodes, and O(m log n) for n entries in them."""

    def of(nodes: Tensor, row: Tensor, partner: Tensor) -> Tensor:
        lists = find(nodes)
        known = lists.key(num_nodes)
        if not len(known):
            return torch.zeros(len(row), device=row.device)
        wanted = row * num_nodes + partner
        place = torch.searchsorted(known, wanted).clamp_max_(len(known) - 1)
        return torch.where(known[place] == wanted, lists.values[place], 0.0)

    return of


def pair_similarities(rows: DenseRows | TopKRows, pairs: np.ndarray, height: int) -> np.ndarray:
    """s_r(u, v) for each pair (u, v) of `pairs` [2, n] and each relation: float32 [n, R].

    `height` nodes at a time, of those that come first in a pair. Exact mode computes their whole
    rows; top-k mode looks at the pairs, or at the best of each row.
    """
    found = np.zeros((pairs.shape[1], len(rows.relations)), dtype=np.float32)
    nodes, row = np.unique(pairs[0], return_inverse=True)
    order = np.argsort(row, kind="stable")

    def similarities(places: Tensor) -> None:
        first, end = int(places[0]), int(places[-1]) + 1
        asked = order[slice(*np.searchsorted(row[order], [first, end]))]
        block, place, partner = (
            torch.from_numpy(part).to(rows.device)
            for part in (nodes[first:end], row[asked] - first, pairs[1, asked])
        )
        for column, relation in enumerate(rows.relations):
            own = rows.similarities(relation, block, place, partner)
            found[asked, column] = own.cpu().numpy()

    for _ in run_in_blocks(similarities, torch.arange(len(nodes)), height):
        pass
    return found
