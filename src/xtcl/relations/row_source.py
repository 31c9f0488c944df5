"""Rows of one relation that can be kept: what decides them, and how they are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from xtcl.relations.above_rows import AboveRows
from xtcl.relations.relation import Relation
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
