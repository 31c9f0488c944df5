"""One relation's levels, a block of nodes at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from xtcl.relations.above_rows import AboveRows
from xtcl.relations.relation import Relation, SimilarityRows, tile_rows
from xtcl.relations.thresholds import levels
from xtcl.relations.view import TrainingView


class LevelRows(Protocol):
    """Whatever gives the levels of one relation."""

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]."""

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""


class ComputedLevels:
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
