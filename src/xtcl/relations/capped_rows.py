"""Top-k mode: several relations bound to one view, asked together for short lists of above pairs.

Each row's above set is cut to its `cap` best, found without making the row where that is possible
(`relations.nearest`). Time and memory grow like V cap, but for searches among factors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from xtcl.relations.level_lists import LevelLists
from xtcl.relations.nearest.levels import list_levels, list_thresholds
from xtcl.relations.nearest.pairs import PairSimilarities, pair_similarities
from xtcl.relations.relation import Relation
from xtcl.relations.searched_lists import SearchedLists
from xtcl.relations.standing import Standing
from xtcl.relations.store.list_passes import Lists, lists_over
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.view import TrainingView

FEW = 0.1
"""Share of the nodes up to which a pass asks for too few rows to build an index for it alone."""


class CappedRows:
    """For a block of nodes: each relation's above pairs, cut to the `cap` best of every row.

    With a `store`, a pass (`over`) reads the lists that are there and keeps those that are not.
    """

    def __init__(
        self,
        relations: Sequence[Relation],
        view: TrainingView,
        quantiles: Sequence[float],
        cap: int,
        index_past: int | None = None,
        store: RelationStore | None = None,
    ) -> None:
        self.relations = tuple(relations)
        self.quantiles = tuple(quantiles)
        self.num_nodes = view.num_nodes
        self.device = view.device
        self.store = store
        self._view, self._cap, self._index_past = view, cap, index_past
        self._searched = [
            SearchedLists(relation, view, self.quantiles, cap, index_past)
            for relation in self.relations
        ]
        self._by_relation: list[Lists] = [searched.lists for searched in self._searched]
        self._pairs: dict[Relation, PairSimilarities] = {}

    def bind(self) -> None:
        """Do now what all rows of a relation share, which ranks divide while all are here."""
        for searched in self._searched:
            _ = searched.search

    @property
    def index_recall(self) -> dict[str, float]:
        """By relation the share of the best that an index found, where one was asked so far."""
        return {
            searched.relation.name: searched.index_recall
            for searched in self._searched
            if searched.index_recall is not None
        }

    def lists(self, nodes: Tensor) -> Iterator[LevelLists]:
        """Yield the lists of `nodes` [b], relation by relation."""
        return (lists(nodes) for lists in self._by_relation)

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
        searched = self._searched[self.relations.index(relation)]
        lists = searched.search(nodes).matrix(self.num_nodes)
        reached = list_levels(lists, self.quantiles, self._cap)[lists.indices == v]
        return Standing(
            float(self.similarities(relation, nodes, first, partner)[0]),
            tuple(list_thresholds(lists, self.quantiles, self._cap)[0].tolist()),
            int(reached.sum()),
        )

    @contextmanager
    def over(self, nodes: Tensor, whole: Tensor | None = None) -> Iterator[CappedRows]:
        """The rows for one pass over the blocks of `nodes`, which each relation is asked for once.

        What the store does not have is in it afterwards, unless the pass was broken off. Where the
        nodes are one rank's share of a `whole` pass, this decides how they are searched for, and
        the store may have them as part of that.
        """
        passing = copy(self)
        if len(nodes if whole is None else whole) <= FEW * self.num_nodes:
            passing._searched = [replace(searched, few=True) for searched in self._searched]
        with ExitStack() as stack:
            if self.store is None:
                passing._by_relation = [searched.lists for searched in passing._searched]
            else:
                passes = [part.cpu().numpy() for part in (nodes, whole) if part is not None]
                passing._by_relation = [
                    stack.enter_context(lists_over(self.store, searched, *passes))
                    for searched in passing._searched
                ]
            yield passing

    def blocks(self, nodes: Tensor, height: int) -> Iterator[Tensor]:
        """`nodes`, if any, in blocks of `height` rows, on the device."""
        return iter(torch.split(nodes.to(self.device), height) if len(nodes) else ())
