"""One relation's lists in top-k mode, searched for a block of nodes at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from xtcl.relations.above_rows import AboveRows
from xtcl.relations.level_lists import LevelLists
from xtcl.relations.nearest.levels import list_levels
from xtcl.relations.nearest.on_device import levels
from xtcl.relations.nearest.on_device.use import explores_on
from xtcl.relations.nearest.registry import index_settings, nearest
from xtcl.relations.nearest.rows import Nearest, NearestRows
from xtcl.relations.relation import Relation
from xtcl.relations.view import TrainingView

LISTED_ROWS = 2**13
"""Nodes of a block, unless another number is asked for: some 100 MB with nine lists of 32."""


@dataclass
class SearchedLists:
    """Above sets cut to the `cap` best; the search is bound when it is first asked for.

    `few` says that a pass asks for too few rows to build an index for it alone. `index_recall` is
    the share of the best that an index found, as far as lists were searched for or read.
    """

    relation: Relation
    view: TrainingView
    quantiles: tuple[float, ...]
    cap: int
    index_past: int | None = None
    few: bool = False
    index_recall: float | None = field(default=None, init=False)
    height: ClassVar[int] = LISTED_ROWS

    @cached_property
    def search(self) -> Nearest:
        """What finds the lists."""
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
        """What decides the lists beside the relation, the view and the quantiles."""
        indexed = index_settings(self.relation, self.view, self.index_past, few=self.few)
        return {"cap": self.cap} | indexed

    @property
    def notes(self) -> Mapping[str, Any]:
        """What an index found of the best, if one was asked."""
        return {} if self.index_recall is None else {"index_recall": self.index_recall}

    def lists(self, nodes: Tensor) -> LevelLists:
        """The lists of `nodes` [b]."""
        found = self.search(nodes)
        return LevelLists(found.rows, found.nodes, self._levels(found))

    def rows(self, nodes: Tensor) -> AboveRows:
        """The same with their similarities, of `nodes` that rise."""
        found = self.search(nodes)
        return AboveRows.of_lists(
            nodes, found.start.diff(), found.nodes, found.similarities, self._levels(found)
        )

    def _levels(self, found: NearestRows) -> Tensor:
        """The level of every entry, uint8."""
        if len(self.quantiles) == 1:
            return torch.ones(len(found.nodes), dtype=torch.uint8, device=found.nodes.device)
        num_nodes = self.view.num_nodes
        if explores_on(self.view.device):
            return levels.list_levels(found, self.quantiles, self.cap, num_nodes)
        reached = list_levels(found.matrix(num_nodes), self.quantiles, self.cap)
        return torch.from_numpy(reached).to(self.view.device)
