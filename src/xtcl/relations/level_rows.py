"""One relation's levels, a block of nodes at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from torch import Tensor

from xtcl.relations.relation import Relation, SimilarityRows
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

    def __init__(self, relation: Relation, view: TrainingView, quantiles: Sequence[float]) -> None:
        self.relation = relation
        self.view = view
        self.quantiles = tuple(quantiles)

    @cached_property
    def similarities(self) -> SimilarityRows:
        """The relation's rows."""
        return self.relation.on(self.view)

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of `nodes` [b] to all nodes, uint8 [b, V]."""
        return self.both(nodes)[1]

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities and levels of `nodes`, each [b, V]."""
        similarities = self.similarities(nodes)
        return similarities, levels(similarities, nodes, self.quantiles)
