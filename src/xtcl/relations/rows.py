"""Levels of some nodes, kept for all who ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from typing import NamedTuple

import torch
from torch import Tensor

from xtcl.relations.relation import Relation
from xtcl.relations.row_source import Levels, LevelSource
from xtcl.relations.store.passes import levels_over
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.thresholds import thresholds
from xtcl.relations.view import TrainingView


class CachedLevels:
    """The levels that `rows` give for `nodes`, asked for once. O(b V) memory for b nodes."""

    def __init__(self, rows: Levels, nodes: Tensor, num_nodes: int) -> None:
        self._rows = rows
        # Other nodes have a place that is not there.
        self._place = torch.full((num_nodes,), len(nodes), device=nodes.device)
        self._place[nodes] = torch.arange(len(nodes), device=nodes.device)
        self._levels = rows.levels(nodes)

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of some of the nodes to all nodes, uint8 [b, V]."""
        return self._levels[self._place[nodes]]

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities, computed anew, and levels of some of the nodes."""
        return self._rows.both(nodes)[0], self.levels(nodes)


class DenseRows:
    """For a block of nodes: each relation's similarities and the levels they reach.

    With a `store`, a pass (`over`) reads the levels that are there and keeps those that are not.
    What is `kept` of a relation is not computed again.
    """

    by_relation: Sequence[Levels]

    def __init__(
        self,
        relations: Sequence[Relation],
        view: TrainingView,
        quantiles: Sequence[float],
        store: RelationStore | None = None,
        kept: Mapping[str, Levels] | None = None,
    ) -> None:
        self.relations = tuple(relations)
        self.quantiles = tuple(quantiles)
        self.view = view
        self.num_nodes = view.num_nodes
        self.device = view.device
        self.store = store
        self._computed = [LevelSource(relation, view, quantiles) for relation in self.relations]
        known = kept or {}
        self.by_relation = [known.get(rows.relation.name, rows) for rows in self._computed]

    def __call__(self, nodes: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield (similarities, levels), both [b, V], relation by relation."""
        nodes = nodes.to(self.device)
        return (rows.both(nodes) for rows in self.by_relation)

    def bind(self) -> None:
        """Do now what all rows of a relation share, which ranks divide while all are here."""
        for computed in self._computed:
            _ = computed.similarities

    def kept(self, nodes: Tensor) -> dict[str, Levels]:
        """Levels of `nodes` by relation, for all views that differ in labels only."""
        nodes = nodes.to(self.device)
        return {
            rows.relation.name: CachedLevels(rows, nodes, self.num_nodes)
            for rows in self._computed
            if rows.relation.shared_by_folds
        }

    def levels(self, nodes: Tensor) -> Iterator[Tensor]:
        """Yield levels [b, V] alone, relation by relation."""
        nodes = nodes.to(self.device)
        return (rows.levels(nodes) for rows in self.by_relation)

    def similarities(
        self, relation: Relation, nodes: Tensor, row: Tensor, partner: Tensor
    ) -> Tensor:
        """s(u, v) of pairs, u = nodes[row]: float32 [m]. Whole rows are computed."""
        place = self.relations.index(relation)
        return self._computed[place].similarities(nodes)[row, partner]

    def standing(self, relation: Relation, u: int, v: int) -> PairLevel:
        """Where v stands in the row of u."""
        nodes = torch.tensor([u], device=self.device)
        similarities, level = self.by_relation[self.relations.index(relation)].both(nodes)
        reached = thresholds(similarities, nodes, self.quantiles)[0]
        return PairLevel(float(similarities[0, v]), tuple(reached.tolist()), int(level[0, v]))

    @contextmanager
    def over(self, nodes: Tensor, whole: Tensor | None = None) -> Iterator[DenseRows]:
        """The rows for one pass over the blocks of `nodes`, which each relation is asked for once.

        What the store does not have is in it afterwards, unless the pass was broken off. Where the
        nodes are one rank's share of a `whole` pass, the store may have them as part of that.
        """
        if self.store is None:
            yield self
            return
        passes = [part.cpu().numpy() for part in (nodes, whole) if part is not None]
        with ExitStack() as stack:
            passing = copy(self)
            passing.by_relation = [
                stack.enter_context(levels_over(self.store, computed, *passes))
                for computed in self._computed
            ]
            yield passing

    def blocks(self, nodes: Tensor, height: int) -> Iterator[Tensor]:
        """`nodes`, if any, in blocks of `height` rows, on the device."""
        return iter(torch.split(nodes.to(self.device), height) if len(nodes) else ())


def usable_relations(
    relations: Sequence[Relation], view: TrainingView
) -> tuple[tuple[Relation, ...], dict[str, list[str]]]:
    """The relations whose data are there, and for each of the others what it lacks."""
    lacking = {relation.name: sorted(relation.reads - view.evidence) for relation in relations}
    there = tuple(relation for relation in relations if not lacking[relation.name])
    return there, {name: kinds for name, kinds in lacking.items() if kinds}


def all_nodes(num_nodes: int) -> Tensor:
    """0 .. V-1."""
    return torch.arange(num_nodes)


class PairLevel(NamedTuple):
    """A pair's similarity, its row's thresholds, and how many of them it is above."""

    similarity: float
    thresholds: tuple[float, ...]
    level: int
