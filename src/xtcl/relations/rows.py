"""Rows of several relations in one view, the same interface in exact mode and in top-k mode.

`DenseRows` computes whole rows (exact mode). `xtcl.relations.topk_rows.TopKRows` searches for the
best of each row (top-k mode). `make_rows` chooses between them for a fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import copy
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.blocks import rows_per_block, run_in_blocks
from xtcl.relations.relation import Relation
from xtcl.relations.row_source import Levels, LevelSource
from xtcl.relations.sparse import SparseRows, dense_rows, to_device
from xtcl.relations.store.passes import PassLevels
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.thresholds import USUAL_RULE, AboveRule, thresholds
from xtcl.relations.view import TrainingView


class RelationRows(Protocol):
    """For a block of nodes: the above pairs of several relations, in either mode.

    The levels that a pair reaches for the R relations are the digits of its pattern code, the first
    relation's the lowest; the base is one more than the number of quantiles. A pair that is above
    for no relation has code 0.
    """

    store: RelationStore | None
    """Where passes keep rows; None: nowhere."""

    @property
    def relations(self) -> tuple[Relation, ...]:
        """The relations, in the order of the digits of a code."""

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The quantiles of the thresholds that levels count."""

    @property
    def num_nodes(self) -> int:
        """V."""

    @property
    def device(self) -> torch.device:
        """Where rows are computed."""

    @property
    def block_rows(self) -> int:
        """Default number of rows of a block."""

    @property
    def index_recall(self) -> dict[str, float]:
        """By relation, the share of the best that an index found; empty where none was used."""

    def prepare(self) -> None:
        """Compute now what all rows of a relation share; ranks divide this work."""

    def cached_levels(self, nodes: Tensor) -> dict[str, Levels]:
        """Levels of `nodes` by relation, for all views that differ in labels only.

        O(b V) memory for each relation. Empty where nothing is gained by it.
        """

    def over(
        self, nodes: Tensor, whole: Tensor | None = None, *, write: bool = True
    ) -> AbstractContextManager[RelationRows]:
        """The rows for one pass over blocks of `nodes`, in their order, through the store.

        What the store does not have is stored, unless the pass ends early or is not to `write`. If
        the nodes are one rank's share of a `whole` pass, the store may have their rows as part of
        that.
        """

    def above(self, nodes: Tensor) -> Iterator[SparseRows]:
        """Yield the above pairs of `nodes` [b], relation by relation."""

    def listed(self, nodes: Tensor, candidates: Tensor | None = None) -> SparseRows:
        """The pairs of `nodes` with all nodes, or with `candidates`, whose code is not 0.

        Values are pattern codes.
        """

    def scorer(
        self,
        table: Tensor,
        number: int,
        tie_break: Relation | None = None,
        exclude: sp.csr_array | None = None,
        within: sp.csr_array | None = None,
    ) -> CandidateScorer:
        """Gives the candidates of a block of nodes, among them the `number` best of each.

        The score of a pair is the entry of `table` at its code. `exclude` is a sparse 0/1 matrix of
        pairs that are no candidates; with `within`, only its pairs are. A node is never a candidate
        of its own.
        """

    def similarities(
        self, relation: Relation, nodes: Tensor, row: Tensor, partner: Tensor
    ) -> Tensor:
        """s(u, v) of pairs, u = nodes[row] and v = partner: float32 [m]."""

    def pair_level(self, relation: Relation, u: int, v: int) -> PairLevel:
        """The similarity of a pair, and the level it reaches in the row of u."""


class PairLevel(NamedTuple):
    """A pair's similarity, the thresholds of its row, and how many of them it reaches."""

    similarity: float
    thresholds: tuple[float, ...]
    level: int


class Candidates(NamedTuple):
    """Scored candidates of b nodes, in c columns."""

    score: Tensor
    """float32 [b, c]; -inf where there is no candidate."""
    node: Tensor | None
    """int64 [b, c]; None where column v is node v."""
    similarity: Tensor | None
    """float32 [b, c], of the relation that breaks ties, if any."""


NO_NODE = -1
"""Stands for a node where a row has no more candidates."""


CandidateScorer = Callable[[Tensor], Candidates]
"""Takes nodes [b], gives their candidates."""


def make_rows(
    relations: Sequence[Relation],
    view: TrainingView,
    quantiles: Sequence[float],
    *,
    cap: int | None = None,
    index_past: int | None = None,
    store: RelationStore | None = None,
    cached: Mapping[str, Levels] | None = None,
    rule: AboveRule = USUAL_RULE,
) -> RelationRows:
    """The rows of a fit: those of exact mode, or with a `cap` those of top-k mode.

    Top-k mode has the usual `rule` only: its lists hold neither a node itself nor pairs of 0.

    `DenseRows` are made directly only where whole rows of levels are needed.
    `cached` are levels from `cached_levels`, which are not computed again.
    """
    from xtcl.relations.topk_rows import TopKRows  # which imports this module

    if cap is None:
        return DenseRows(relations, view, quantiles, store, cached, rule)
    if rule != USUAL_RULE:
        raise UsageError(f"cap={cap} needs the usual conditions of 'above', and got {rule}.")
    return TopKRows(relations, view, quantiles, cap, index_past, store)


class DenseRows:
    """Exact mode of `RelationRows`: whole rows. O(b V) memory for a block of b nodes.

    With a `store`, a pass (`over`) reads the levels that are stored and stores the others. Levels
    that are `cached` are not computed again.
    """

    by_relation: Sequence[Levels]

    def __init__(
        self,
        relations: Sequence[Relation],
        view: TrainingView,
        quantiles: Sequence[float],
        store: RelationStore | None = None,
        cached: Mapping[str, Levels] | None = None,
        rule: AboveRule = USUAL_RULE,
    ) -> None:
        self.relations = tuple(relations)
        self.quantiles = tuple(quantiles)
        self.view, self.rule = view, rule
        self.num_nodes = view.num_nodes
        self.device = view.device
        self.store = store
        self._sources = [
            LevelSource(relation, view, quantiles, rule) for relation in self.relations
        ]
        known = cached or {}
        self.by_relation = [known.get(source.relation.name, source) for source in self._sources]

    @property
    def block_rows(self) -> int:
        """Default number of rows of a block."""
        return rows_per_block(self.num_nodes, self.device)

    @property
    def index_recall(self) -> dict[str, float]:
        """Empty: no index is used."""
        return {}

    def __call__(self, nodes: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (similarities, levels), both [b, V], relation by relation."""
        nodes = nodes.to(self.device)
        return (rows.both(nodes) for rows in self.by_relation)

    def levels(self, nodes: Tensor) -> Iterator[Tensor]:
        """Yield levels [b, V] alone, relation by relation."""
        nodes = nodes.to(self.device)
        return (rows.levels(nodes) for rows in self.by_relation)

    def prepare(self) -> None:
        """Compute now what all rows of a relation share; ranks divide this work."""
        for source in self._sources:
            _ = source.similarities

    def cached_levels(self, nodes: Tensor) -> dict[str, Levels]:
        """Levels of `nodes` by relation, for all views that differ in labels only."""
        nodes = nodes.to(self.device)
        return {
            source.relation.name: CachedLevels(source, nodes, self.num_nodes)
            for source in self._sources
            if source.relation.shared_by_folds
        }

    @contextmanager
    def over(
        self, nodes: Tensor, whole: Tensor | None = None, *, write: bool = True
    ) -> Iterator[DenseRows]:
        """The rows for one pass over blocks of `nodes`, through the store."""
        if self.store is None:
            yield self
            return
        parts = [part.cpu().numpy() for part in (nodes, whole) if part is not None]
        with ExitStack() as stack:
            passing = copy(self)
            passing.by_relation = passes = [PassLevels(source) for source in self._sources]
            for each in passes:
                stack.enter_context(each.through(self.store, *parts, write=write))
            yield passing

    def blocks(self, nodes: Tensor, height: int) -> Iterator[Tensor]:
        """`nodes`, if any, in blocks of `height` rows, on the device."""
        return iter(torch.split(nodes.to(self.device), height) if len(nodes) else ())

    def pattern_codes(self, nodes: Tensor, candidates: Tensor | None = None) -> Tensor:
        """The code of each pair [b, c], with all nodes or with `candidates`."""
        levels = self.levels(nodes)
        if candidates is not None:
            levels = (level[:, candidates] for level in levels)
        return encode(levels, len(self.relations), len(self.quantiles))

    def above(self, nodes: Tensor) -> Iterator[SparseRows]:
        """Yield the above pairs of `nodes` [b], relation by relation."""
        for level in self.levels(nodes):
            row, node = torch.nonzero(level, as_tuple=True)
            yield SparseRows(row, node, len(nodes))

    def listed(self, nodes: Tensor, candidates: Tensor | None = None) -> SparseRows:
        """The pairs of `nodes` whose code is not 0, from codes of whole rows."""
        codes = self.pattern_codes(nodes, candidates)
        row, column = torch.nonzero(codes, as_tuple=True)
        node = column if candidates is None else candidates[column]
        return SparseRows(row, node, len(nodes), codes[row, column])

    def scorer(
        self,
        table: Tensor,
        number: int,
        tie_break: Relation | None = None,
        exclude: sp.csr_array | None = None,
        within: sp.csr_array | None = None,
    ) -> CandidateScorer:
        """Gives all nodes as candidates, with their scores. Cost: O(b V) for b nodes."""
        excluded = None if exclude is None else to_device(exclude, self.device)
        allowed = None if within is None else to_device(within, self.device)
        is_own = tie_break in self.relations
        other = None if tie_break is None or is_own else tie_break.on(self.view)

        def candidates(nodes: Tensor) -> Candidates:
            codes, similarity = self._codes_and(tie_break if is_own else None, nodes)
            score = looked_up(table, codes)
            score[torch.arange(len(nodes), device=nodes.device), nodes] = -torch.inf
            if other is not None:
                similarity = other(nodes)
            if excluded is not None:
                score.masked_fill_(dense_rows(excluded, nodes) > 0, -torch.inf)
            if allowed is not None:
                score.masked_fill_(dense_rows(allowed, nodes) == 0, -torch.inf)
            return Candidates(score, None, similarity)

        return candidates

    def _codes_and(self, relation: Relation | None, nodes: Tensor) -> tuple[Tensor, Tensor | None]:
        """Codes of whole rows [b, V], and the similarities of one of the relations."""
        kept: list[Tensor] = []

        def levels() -> Iterator[Tensor]:
            for own, rows in zip(self.relations, self.by_relation, strict=True):
                if own == relation:
                    similarities, level = rows.both(nodes)
                    kept.append(similarities)
                    yield level
                else:
                    yield rows.levels(nodes)

        codes = encode(levels(), len(self.relations), len(self.quantiles))
        return codes, kept[0] if kept else None

    def similarities(
        self, relation: Relation, nodes: Tensor, row: Tensor, partner: Tensor
    ) -> Tensor:
        """s(u, v) of pairs, u = nodes[row] and v = partner: float32 [m], from whole rows."""
        source = self._sources[self.relations.index(relation)]
        return source.similarities(nodes)[row, partner]

    def pair_level(self, relation: Relation, u: int, v: int) -> PairLevel:
        """The similarity of a pair, and the level it reaches in the row of u."""
        nodes = torch.tensor([u], device=self.device)
        similarities, level = self.by_relation[self.relations.index(relation)].both(nodes)
        reached = thresholds(similarities, nodes, self.quantiles, self.rule.self_pairs)[0]
        return PairLevel(float(similarities[0, v]), tuple(reached.tolist()), int(level[0, v]))


class CachedLevels:
    """The levels of `nodes` that `rows` gives, computed once. O(b V) memory for b nodes."""

    def __init__(self, rows: Levels, nodes: Tensor, num_nodes: int) -> None:
        self._rows = rows
        # The place of other nodes is out of range, so that asking for them is an error.
        self._place = torch.full((num_nodes,), len(nodes), device=nodes.device)
        self._place[nodes] = torch.arange(len(nodes), device=nodes.device)
        self._levels = rows.levels(nodes)

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of some of the nodes to all nodes, uint8 [b, V]."""
        return self._levels[self._place[nodes]]

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities, computed anew, and levels of some of the nodes."""
        return self._rows.both(nodes)[0], self.levels(nodes)


def encode(levels: Iterable[Tensor], num_relations: int, num_quantiles: int) -> Tensor:
    """Pattern codes [b, c] of pairs whose levels come relation by relation, each [b, c].

    Codes are as narrow as the number of patterns allows: they are most of the memory traffic.
    """
    base = num_quantiles + 1
    codes: Tensor | None = None
    for position, level in enumerate(levels):
        if codes is None:
            codes = level.to(_code_type(base**num_relations))
        else:
            codes.add_(level, alpha=base**position)
    if codes is None:
        raise UsageError("A pattern needs at least one relation.")
    return codes


def _code_type(patterns: int) -> torch.dtype:
    return torch.int16 if patterns <= torch.iinfo(torch.int16).max else torch.int32


def looked_up(table: Tensor, codes: Tensor) -> Tensor:
    """The entry of `table` [P] at each of `codes`; twice as fast as `table[codes]` on a CPU."""
    return table.index_select(0, codes.reshape(-1).int()).view(codes.shape)


def pair_similarities(rows: RelationRows, pairs: np.ndarray, height: int) -> np.ndarray:
    """s_r(u, v) for each pair (u, v) of `pairs` [2, n] and each relation: float32 [n, R].

    Pairs are taken in blocks of `height` different u. Exact mode computes the whole rows of these;
    top-k mode computes single pairs, or the best of each row.
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


def usable_relations(
    relations: Sequence[Relation], view: TrainingView
) -> tuple[tuple[Relation, ...], dict[str, list[str]]]:
    """The relations whose data the view has, and for each of the others what is missing."""
    missing = {relation.name: sorted(relation.reads - view.available) for relation in relations}
    usable = tuple(relation for relation in relations if not missing[relation.name])
    return usable, {name: kinds for name, kinds in missing.items() if kinds}


def all_nodes(num_nodes: int) -> Tensor:
    """0 .. V-1."""
    return torch.arange(num_nodes)
