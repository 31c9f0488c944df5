"""Rows of one relation that can be kept: what decides them, and how they are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from xtcl.relations.relation import Relation, SimilarityRows, tile_rows
from xtcl.relations.sparse import AboveRows, LevelLists, SparseRows
from xtcl.relations.thresholds import levels
from xtcl.relations.topk import TopK, TopKSearch, index_settings, list_levels, topk_search
from xtcl.relations.view import TrainingView


class RowSource(Protocol):
    """Whatever computes the above pairs of one relation, a block of rising nodes at a time."""

    @property
    def relation(self) -> Relation:
        """Whose rows they are."""

    @property
    def view(self) -> TrainingView:
        """What the relation reads."""

    @property
    def quantiles(self) -> tuple[float, ...]:
        """Those whose thresholds the levels count."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What else decides the rows."""

    @property
    def notes(self) -> Mapping[str, Any]:
        """What is known about the rows once they are computed, and goes with them."""

    @property
    def height(self) -> int:
        """Rows to compute at a time."""

    def rows(self, nodes: Tensor) -> AboveRows:
        """The above pairs of `nodes`, which rise."""


class Levels(Protocol):
    """Whatever gives the levels of one relation."""

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]."""

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""


class LevelSource:
    """Levels that are computed from the relation's similarities, which are bound when asked for."""

    settings: ClassVar[Mapping[str, Any]] = {}
    notes: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, relation: Relation, view: TrainingView, quantiles: Sequence[float]) -> None:
        self.relation = relation
        self.view = view
        self.quantiles = tuple(quantiles)

    @cached_property
    def similarities(self) -> SimilarityRows:
        """The relation's rows."""
        return self.relation.on(self.view)

    @property
    def height(self) -> int:
        """Rows to compute at a time."""
        return tile_rows(self.view.device)

    def rows(self, nodes: Tensor) -> AboveRows:
        """The above pairs of `nodes`, which rise."""
        return AboveRows.of_block(nodes, *self.both(nodes))

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]: of rows that are still in a cache."""
        tiles = self.similarities.tiles(nodes)
        return torch.cat([levels(rows, part, self.quantiles) for part, rows in tiles])

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""
        similarities = self.similarities(nodes)
        return similarities, levels(similarities, nodes, self.quantiles)


TOPK_BLOCK_ROWS = 2**13
"""Nodes of a block, unless another number is asked for: some 100 MB with nine lists of 32."""


@dataclass
class TopKSource:
    """Above sets cut to the `cap` best; the search is bound when it is first asked for.

    `few_queries` says that a pass has too few rows to build an index for it alone. `index_recall`
    is the share of the best that an index found, as far as lists were searched for or read.
    """

    relation: Relation
    view: TrainingView
    quantiles: tuple[float, ...]
    cap: int
    index_threshold: int | None = None
    few_queries: bool = False
    index_recall: float | None = field(default=None, init=False)
    height: ClassVar[int] = TOPK_BLOCK_ROWS

    @cached_property
    def search(self) -> TopKSearch:
        """What finds the lists."""
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
        """What decides the lists beside the relation, the view and the quantiles."""
        indexed = index_settings(
            self.relation, self.view, self.index_threshold, few_queries=self.few_queries
        )
        return {"cap": self.cap} | indexed

    @property
    def notes(self) -> Mapping[str, Any]:
        """What an index found of the best, if one was asked."""
        return {} if self.index_recall is None else {"index_recall": self.index_recall}

    def lists(self, nodes: Tensor) -> LevelLists:
        """The lists of `nodes` [b]."""
        found = self.search(nodes)
        return LevelLists(found.row, found.node, self._levels(found))

    def rows(self, nodes: Tensor) -> AboveRows:
        """The same with their similarities, of `nodes` that rise."""
        found = self.search(nodes)
        return AboveRows.of_lists(
            nodes, found.length, found.node, found.values, self._levels(found)
        )

    def _levels(self, found: SparseRows) -> Tensor:
        """The level of every entry, uint8."""
        return list_levels(found, self.quantiles, self.cap, self.view.num_nodes)
