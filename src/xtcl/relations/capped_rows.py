"""Top-k mode: several relations bound to one view, asked together for short lists of above pairs.

Each row's above set is cut to its `cap` best, found without making the row where that is possible
(`relations.nearest`). Time and memory grow like V cap, but for searches among factors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor

from xtcl.relations.nearest.levels import list_levels, list_thresholds
from xtcl.relations.nearest.on_device import levels
from xtcl.relations.nearest.on_device.use import explores_on
from xtcl.relations.nearest.pairs import PairSimilarities, pair_similarities
from xtcl.relations.nearest.registry import nearest
from xtcl.relations.nearest.rows import Nearest, NearestRows
from xtcl.relations.relation import Relation
from xtcl.relations.standing import Standing
from xtcl.relations.view import TrainingView

LISTED_ROWS = 2**13
"""Nodes of a block, unless another number is asked for: some 100 MB with nine lists of 32."""

FEW = 0.1
"""Share of the nodes up to which a pass asks for too few rows to build an index for it alone."""


class LevelLists(NamedTuple):
    """Above pairs row by row: the place of u in the block, v, and the level they reach."""

    row: Tensor  # int64 [m]
    node: Tensor  # int64 [m]
    level: Tensor  # uint8 [m], 1 or more


class CappedRows:
    """For a block of nodes: each relation's above pairs, cut to the `cap` best of every row."""

    def __init__(
        self,
        relations: Sequence[Relation],
        view: TrainingView,
        quantiles: Sequence[float],
        cap: int,
        index_past: int | None = None,
    ) -> None:
        self.relations = tuple(relations)
        self.quantiles = tuple(quantiles)
        self.num_nodes = view.num_nodes
        self.device = view.device
        self._view, self._cap, self._index_past = view, cap, index_past
        self._few = False
        self._nearest: dict[Relation, Nearest] = {}
        self._pairs: dict[Relation, PairSimilarities] = {}

    def bind(self) -> None:
        """Do now what all rows of a relation share, which ranks divide while all are here."""
        for relation in self.relations:
            self._bound(relation)

    @property
    def index_recall(self) -> dict[str, float]:
        """By relation the share of the best that an index finds, where one was built so far."""
        found = {
            relation.name: getattr(search, "index_recall", None)
            for relation, search in self._nearest.items()
        }
        return {name: recall for name, recall in found.items() if recall is not None}

    def lists(self, nodes: Tensor) -> Iterator[LevelLists]:
        """Yield the lists of `nodes` [b], relation by relation."""
        for relation in self.relations:
            found = self._find(relation, nodes)
            yield LevelLists(found.rows, found.nodes, self._levels(found))

    def similarities(
        self, relation: Relation, nodes: Tensor, row: Tensor, partner: Tensor
    ) -> Tensor:
        """s(u, v) of pairs, u = nodes[row]: float32 [m]; see `nearest.pairs` for what is known."""
        if relation not in self._pairs:
            self._pairs[relation] = pair_similarities(
                relation, self._view, self._cap, self._index_past
            )
        return self._pairs[relation](nodes, row, partner)

    def standing(self, relation: Relation, u: int, v: int) -> Standing:
        """Where v stands in the row of u."""
        nodes, first = torch.tensor([u], device=self.device), torch.tensor([0], device=self.device)
        partner = torch.tensor([v], device=self.device)
        lists = self._find(relation, nodes).matrix(self.num_nodes)
        reached = list_levels(lists, self.quantiles, self._cap)[lists.indices == v]
        return Standing(
            float(self.similarities(relation, nodes, first, partner)[0]),
            tuple(list_thresholds(lists, self.quantiles, self._cap)[0].tolist()),
            int(reached.sum()),
        )

    @contextmanager
    def over(self, nodes: Tensor, whole: Tensor | None = None) -> Iterator[CappedRows]:
        """The rows for one pass over the blocks of `nodes`: nothing of them is kept.

        Where they are one rank's share of a `whole` pass, this decides how they are searched for.
        """
        if len(nodes if whole is None else whole) > FEW * self.num_nodes:
            yield self
            return
        passing = copy(self)
        passing._few, passing._nearest = True, {}
        yield passing

    def blocks(self, nodes: Tensor, height: int) -> Iterator[Tensor]:
        """`nodes`, if any, in blocks of `height` rows, on the device."""
        return iter(torch.split(nodes.to(self.device), height) if len(nodes) else ())

    def _levels(self, found: NearestRows) -> Tensor:
        """The level of every entry, uint8."""
        if len(self.quantiles) == 1:
            return torch.ones(len(found.nodes), dtype=torch.uint8, device=self.device)
        if explores_on(self.device):
            return levels.list_levels(found, self.quantiles, self._cap, self.num_nodes)
        reached = list_levels(found.matrix(self.num_nodes), self.quantiles, self._cap)
        return torch.from_numpy(reached).to(self.device)

    def _find(self, relation: Relation, nodes: Tensor) -> NearestRows:
        return self._bound(relation)(nodes)

    def _bound(self, relation: Relation) -> Nearest:
        if relation not in self._nearest:
            self._nearest[relation] = nearest(
                relation,
                self._view,
                self.quantiles[0],
                self._cap,
                index_past=self._index_past,
                few=self._few,
            )
        return self._nearest[relation]
