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
from xtcl.relations.thresholds import levels
from xtcl.relations.topk import Nearest, NearestRows, list_levels_numpy, uses_torch_search
from xtcl.relations.topk import list_levels as torch_list_levels
from xtcl.relations.topk_dispatch import index_settings, nearest
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

    settings: ClassVar[Mapping[str, Any]] = {}
    notes: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, relation: Relation, view: TrainingView, quantiles: Sequence[float]) -> None:
        self.relation = relation
        self.view = view
        self.quantiles = tuple(quantiles)

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
        return torch.cat([levels(rows, part, self.quantiles) for part, rows in tiles])

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""
        similarities = self.similarities(nodes)
        return similarities, levels(similarities, nodes, self.quantiles)


TOPK_BLOCK_ROWS = 2**13
"""Default block size of top-k mode: some 100 MB with nine lists of 32."""


@dataclass
class TopKSource:
    """Searches for above sets cut to the `cap` best of each row (top-k mode).

    The search is prepared when the first row is computed. `few` means that a pass is over too few
    rows to build an index for it alone.
    """

    relation: Relation
    view: TrainingView
    quantiles: tuple[float, ...]
    cap: int
    index_past: int | None = None
    few: bool = False
    index_recall: float | None = field(default=None, init=False)
    """Share of the best that an index found, of the rows searched or read so far."""
    block_rows: ClassVar[int] = TOPK_BLOCK_ROWS

    @cached_property
    def search(self) -> Nearest:
        """Finds the best of a block of nodes."""
        found = nearest(
            self.relation,
            self.view,
            self.quantiles[0],
            self.cap,
            index_past=self.index_past,
            few=self.few,
        )
        self.index_recall = getattr(found, "index_recall", None)
        return found

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the rows besides the relation, the view and the quantiles."""
        indexed = index_settings(self.relation, self.view, self.index_past, few=self.few)
        return {"cap": self.cap} | indexed

    @property
    def notes(self) -> Mapping[str, Any]:
        """What an index found of the best, if one was used."""
        return {} if self.index_recall is None else {"index_recall": self.index_recall}

    def rows(self, nodes: Tensor) -> SparseRows:
        """The above pairs of `nodes` [b], with similarities and levels."""
        found = self.search(nodes)
        return SparseRows(
            found.rows, found.nodes, len(nodes), found.similarities, self._levels(found)
        )

    def _levels(self, found: NearestRows) -> Tensor:
        """The level of every entry, uint8 [m]."""
        if len(self.quantiles) == 1:
            return torch.ones(len(found.nodes), dtype=torch.uint8, device=found.nodes.device)
        num_nodes = self.view.num_nodes
        if uses_torch_search(self.view.device):
            return torch_list_levels(found, self.quantiles, self.cap, num_nodes)
        reached = list_levels_numpy(found.matrix(num_nodes), self.quantiles, self.cap)
        return torch.from_numpy(reached).to(self.view.device)
