"""Top-k mode: short lists of above pairs of several relations in one view.

Each row's above set is cut to its `cap` best, which a relation finds without computing the whole
row where that is possible. Time and memory grow like V cap, except for searches among factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace

import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.relations.blocks import rows_per_block
from xtcl.relations.cosine import cosines_of_pairs, normalize_rows
from xtcl.relations.relation import Relation, SimilarityRows
from xtcl.relations.row_source import TOPK_BLOCK_ROWS, Levels, TopKSource
from xtcl.relations.rows import NO_NODE, Candidates, CandidateScorer, PairLevel
from xtcl.relations.sparse import CSRGraph, SparseRows, is_among, values_at
from xtcl.relations.store.passes import PassRows
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.topk import TopK, TopKSearch, list_levels, list_thresholds, topk_search
from xtcl.relations.view import TrainingView

_FEW_ROWS = 0.1
"""Share of the nodes up to which a pass is over too few rows to build an index for it alone."""


class TopKRows:
    """Top-k mode of `RelationRows`: of each relation's above pairs, the `cap` best of every row.

    With a `store`, a pass (`over`) reads the lists that are stored and stores the others.
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
        self._sources = [
            TopKSource(relation, view, self.quantiles, cap, index_past)
            for relation in self.relations
        ]
        self._by_relation: Sequence[PassRows[TopKSource] | TopKSource] = self._sources
        self._pairs: dict[Relation, PairSimilarities] = {}

    @property
    def block_rows(self) -> int:
        """Default number of rows of a block."""
        return TOPK_BLOCK_ROWS

    @property
    def index_recall(self) -> dict[str, float]:
        """By relation, the share of the best that an index found; empty where none was used."""
        return {
            source.relation.name: source.index_recall
            for source in self._sources
            if source.index_recall is not None
        }

    def prepare(self) -> None:
        """Compute now what all rows of a relation share; ranks divide this work."""
        for source in self._sources:
            _ = source.search

    def cached_levels(self, nodes: Tensor) -> dict[str, Levels]:
        """Empty: lists are short, and searches do not waste what they compute on a few rows."""
        return {}

    def above(self, nodes: Tensor) -> Iterator[SparseRows]:
        """Yield the above pairs of `nodes` [b], relation by relation."""
        return (rows.rows(nodes) for rows in self._by_relation)

    @contextmanager
    def over(
        self, nodes: Tensor, whole: Tensor | None = None, *, write: bool = True
    ) -> Iterator[TopKRows]:
        """The rows for one pass over blocks of `nodes`, through the store.

        The size of the `whole` pass decides how they are searched for.
        """
        passing = copy(self)
        if len(nodes if whole is None else whole) <= _FEW_ROWS * self.num_nodes:
            passing._sources = [replace(source, few_queries=True) for source in self._sources]
        passing._by_relation = passing._sources
        with ExitStack() as stack:
            if self.store is not None:
                parts = [part.cpu().numpy() for part in (nodes, whole) if part is not None]
                passing._by_relation = passes = [PassRows(source) for source in passing._sources]
                for each in passes:
                    stack.enter_context(each.through(self.store, *parts, write=write))
                    each.source.index_recall = each.notes.get("index_recall")
            yield passing

    def listed(self, nodes: Tensor, candidates: Tensor | None = None) -> SparseRows:
        """The pairs of `nodes` whose code is not 0: the lists of all relations, merged.

        Cost: O(m log m) for m entries of the lists.
        """
        if candidates is None:
            return self._merged(nodes)
        among = torch.zeros(self.num_nodes, dtype=torch.bool, device=self.device)
        among[candidates] = True
        return self._merged(nodes, lambda rows: among[rows.node])

    def _merged(
        self, nodes: Tensor, chosen: Callable[[SparseRows], Tensor] | None = None
    ) -> SparseRows:
        """The lists of all relations, of each the entries that are `chosen`, bool [m]."""
        base = len(self.quantiles) + 1
        keys, digits = [], []
        for position, rows in enumerate(self.above(nodes)):
            rows = rows if chosen is None else rows.where(chosen(rows))
            keys.append(rows.key(self.num_nodes))
            digits.append(rows.levels.long() * base**position)
        pairs, place = torch.unique(torch.cat(keys), return_inverse=True)
        code = torch.zeros_like(pairs).index_add_(0, place, torch.cat(digits))
        row, node = pairs // self.num_nodes, pairs % self.num_nodes
        return SparseRows(row, node, len(nodes), code)

    def scorer(
        self,
        table: Tensor,
        number: int,
        tie_break: Relation | None = None,
        exclude: sp.csr_array | None = None,
        within: sp.csr_array | None = None,
    ) -> CandidateScorer:
        """Gives the nodes that some relation lists and that may be among the `number` best.

        Ties matter only among those that score at least as high as the last that is chosen, so only
        these get a similarity. Pairs that are not `within` are dropped before lists are merged.
        Cost: O(b R cap log(b R cap)) for b nodes and R relations.
        """
        excluded = None if exclude is None else CSRGraph.from_scipy(exclude, self.device)
        inside = None if within is None else CSRGraph.from_scipy(within, self.device)

        def candidates(nodes: Tensor) -> Candidates:
            chosen = None
            if inside is not None:
                place, end = inside.neighbours(nodes)
                known = place * self.num_nodes + end

                def chosen(rows: SparseRows) -> Tensor:
                    return is_among(rows.key(self.num_nodes), known)

            listed = self._merged(nodes, chosen)
            row, node, score = listed.row, listed.node, table[listed.values]
            if excluded is not None:
                allowed = ~excluded.has_edges(nodes, row, node)
                row, node, score = row[allowed], node[allowed], score[allowed]
            rows = SparseRows(row, node, len(nodes), score)
            rows = rows.where(score >= _least_score(rows, number)[row])
            similarity = None
            if tie_break is not None:
                own = self.similarities(tie_break, nodes, rows.row, rows.node)
                similarity = rows.padded(own, 0.0)
            return Candidates(
                rows.padded(rows.values, -torch.inf), rows.padded(rows.node, NO_NODE), similarity
            )

        return candidates

    def similarities(
        self, relation: Relation, nodes: Tensor, row: Tensor, partner: Tensor
    ) -> Tensor:
        """s(u, v) of pairs, u = nodes[row] and v = partner: float32 [m].

        Of PageRank and graph distance on large graphs, only the best of a row are known.
        """
        if relation not in self._pairs:
            self._pairs[relation] = topk_pair_similarities(
                relation, self._view, self._cap, self._index_past
            )
        return self._pairs[relation](nodes, row, partner)

    def pair_level(self, relation: Relation, u: int, v: int) -> PairLevel:
        """The similarity of a pair, and the level it reaches in the row of u."""
        nodes, first = torch.tensor([u], device=self.device), torch.tensor([0], device=self.device)
        partner = torch.tensor([v], device=self.device)
        lists = self._sources[self.relations.index(relation)].search(nodes)
        settings = self.quantiles, self._cap, self.num_nodes
        reached = list_levels(lists, *settings)[lists.node == v]
        return PairLevel(
            float(self.similarities(relation, nodes, first, partner)[0]),
            tuple(list_thresholds(lists, *settings)[0].tolist()),
            int(reached.sum()),
        )


def _least_score(rows: SparseRows, number: int) -> Tensor:
    """The lowest of the `number` best scores of each row, -inf where there are fewer: [b]."""
    scores = rows.padded(rows.values, -torch.inf)
    if scores.shape[1] < number:
        return torch.full((rows.num_rows,), -torch.inf, device=rows.row.device)
    return torch.topk(scores, number, dim=1).values[:, -1]


PairSimilarities = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Takes nodes u [b], and for each of m pairs the place of u among them and v. Gives s(u, v)."""


WHOLE_ROW_NODES = 2**15
"""Nodes up to which a whole row of PageRank takes no longer than a wide list."""


WIDER = 4
"""How many times the cap is searched of a row: links of high degree are far down in it. With the
cap alone, AUC on Photo was lower by 0.14."""


def topk_pair_similarities(
    relation: Relation, view: TrainingView, cap: int, index_past: int | None = None
) -> PairSimilarities:
    """Similarities of single pairs of a relation, without the rows they are in.

    Cosines are computed from factors; Link, Jaccard and Topology from degrees and common
    neighbours. PageRank and graph distance are looked up in whole rows where the graph is small.
    Where it is not, the best of a row are searched for, WIDER times the cap, whatever the quantile;
    pairs that are not among them count as 0.
    """
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
    if num_nodes <= WHOLE_ROW_NODES:
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
    return lambda nodes, row, partner: cosines_of_pairs(rows, nodes[row], partner)


def _from_lists(find: TopKSearch, num_nodes: int) -> PairSimilarities:
    """Looked up. Cost: that of the lists of the nodes, and O(m log n) for n entries in them."""

    def of(nodes: Tensor, row: Tensor, partner: Tensor) -> Tensor:
        lists = find(nodes)
        return values_at(row * num_nodes + partner, lists.key(num_nodes), lists.values)

    return of
