"""What computes the above pairs of one relation, so that the relation store can keep them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from xtcl.relations.relation import Relation, SimilarityRows, tile_rows
from xtcl.relations.sparse import SparseRows
from xtcl.relations.thresholds import USUAL_RULE, AboveRule, levels
from xtcl.relations.topk import TopK, TopKSearch, index_settings, list_levels, topk_search
from xtcl.relations.view import TrainingView


class RowSource(Protocol):
    """Computes the above pairs of one relation in one view."""

    @property
    def relation(self) -> Relation:
        """The relation."""

    @property
    def view(self) -> TrainingView:
        """What the relation reads."""

    @property
    def quantiles(self) -> tuple[float, ...]:
        """The quantiles of the thresholds that levels count."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What else decides the rows."""

    @property
    def notes(self) -> Mapping[str, Any]:
        """What is known about the rows once they are computed; it is stored with them."""

    @property
    def block_rows(self) -> int:
        """Rows to compute at a time."""

    def rows(self, nodes: Tensor) -> SparseRows:
        """The above pairs of `nodes` [b], with similarities and levels."""


class Levels(Protocol):
    """Dense levels of one relation."""

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]."""

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""


class LevelSource:
    """Computes dense rows of a relation and their levels (exact mode).

    The relation is prepared when the first row is computed.
    """

    notes: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        relation: Relation,
        view: TrainingView,
        quantiles: Sequence[float],
        rule: AboveRule = USUAL_RULE,
    ) -> None:
        self.relation = relation
        self.view = view
        self.quantiles = tuple(quantiles)
        self.rule = rule

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the rows besides: the conditions of "above" that are not the usual ones."""
        return {} if self.rule == USUAL_RULE else self.rule._asdict()

    @cached_property
    def similarities(self) -> SimilarityRows:
        """Computes the similarities of a block of nodes."""
        return self.relation.on(self.view)

    @property
    def block_rows(self) -> int:
        """Rows to compute at a time."""
        return tile_rows(self.view.device)

    def rows(self, nodes: Tensor) -> SparseRows:
        """The above pairs of `nodes` [b], with similarities and levels."""
        similarities, reached = self.both(nodes)
        return SparseRows.of_levels(reached, similarities)

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V].

        Each tile's levels are computed while its similarities are in the processor's cache.
        """
        tiles = self.similarities.tiles(nodes)
        return torch.cat([levels(rows, part, self.quantiles, self.rule) for part, rows in tiles])

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""
        similarities = self.similarities(nodes)
        return similarities, levels(similarities, nodes, self.quantiles, self.rule)


TOPK_BLOCK_ROWS = 2**13
"""Default block size of top-k mode: some 100 MB with nine lists of 32."""


@dataclass
class TopKSource:
    """Searches for above sets cut to the `cap` best of each row (top-k mode).

    The search is prepared when the first row is computed. `few_queries` means that a pass is over
    too few rows to build an index for it alone.
    """

    relation: Relation
    view: TrainingView
    quantiles: tuple[float, ...]
    cap: int
    index_threshold: int | None = None
    few_queries: bool = False
    index_recall: float | None = field(default=None, init=False)
    """Share of the best that an index found, of the rows searched or read so far."""
    block_rows: ClassVar[int] = TOPK_BLOCK_ROWS

    @cached_property
    def search(self) -> TopKSearch:
        """Finds the best of a block of nodes."""
        top = TopK.of(
            self.quantiles[0],
            self.cap,
            self.view.num_nodes,
            self.index_threshold,
            few_queries=self.few_queries,
        )
        found = topk_search(self.relation, self.view, top)
        self.index_recall = getattr(found, "index_recall", None)
        return found

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the rows besides the relation, the view and the quantiles."""
        indexed = index_settings(
            self.relation, self.view, self.index_threshold, few_queries=self.few_queries
        )
        return {"cap": self.cap} | indexed

    @property
    def notes(self) -> Mapping[str, Any]:
        """What an index found of the best, if one was used."""
        return {} if self.index_recall is None else {"index_recall": self.index_recall}

    def rows(self, nodes: Tensor) -> SparseRows:
        """The above pairs of `nodes` [b], with similarities and levels."""
        found = self.search(nodes)
        return found._replace(level=self._levels(found))

    def _levels(self, found: SparseRows) -> Tensor:
        """The level of every entry, uint8 [m]."""
        return list_levels(found, self.quantiles, self.cap, self.view.num_nodes)
