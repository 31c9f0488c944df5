"""Views, relations and stores that the tests of the store share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dense import all_rows

from xtcl.relations import row_source as searched_lists
from xtcl.relations.registry import PAPER_RELATIONS, resolve_relations
from xtcl.relations.relation import Relation, SimilarityRows
from xtcl.relations.row_source import LevelSource
from xtcl.relations.rows import DenseRows
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.parquet import StoredRelation
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.topk import TopKSearch, topk_search
from xtcl.relations.topk_rows import TopKRows
from xtcl.relations.view import TrainingView

QUANTILES = (0.7, 0.9)
OURS = [kind() for kind in PAPER_RELATIONS]


def named(name: str) -> Relation:
    (relation,) = resolve_relations(name)
    return relation


def open_or_compute(
    store: RelationStore,
    view: TrainingView,
    relation: Relation,
    quantiles: Sequence[float],
    nodes: np.ndarray | None = None,
) -> StoredRelation:
    """The rows of all nodes, or of the ascending `nodes`; computed and stored if missing."""
    return store.load_or_compute(LevelSource(relation, view, quantiles), nodes)


def blocks(
    view: TrainingView, relation: Relation, quantiles: tuple[float, ...], height: int = 64
) -> Iterator[tuple[np.ndarray, SparseRows]]:
    """All rows of a relation, `height` at a time."""
    computed = LevelSource(relation, view, quantiles)
    for nodes in torch.split(torch.arange(view.num_nodes), height):
        yield nodes.numpy(), computed.rows(nodes)


def brute_force(
    view: TrainingView, relation: Relation, quantiles: tuple[float, ...]
) -> list[tuple[int, int, float, int]]:
    """(u, v, similarity, level) of every above pair, node by node and straight from the words."""
    matrix = all_rows(relation, view)
    found = []
    for u, row in enumerate(matrix):
        others = np.delete(row, u)
        thresholds = [np.quantile(others, q, method="higher") for q in quantiles]
        for v, similarity in enumerate(row):
            level = sum(bool(similarity >= eta and similarity > 0) for eta in thresholds)
            if v != u and level:
                found.append((u, v, float(similarity), level))
    return found


def listed(rows: SparseRows, first: int = 0) -> list[tuple[int, int, float, int]]:
    """(u, v, similarity, level) of every pair of the rows of nodes from `first` on."""
    row, *columns = rows.to_numpy()
    return list(zip(*(column.tolist() for column in (row + first, *columns)), strict=True))


def existing(stored: StoredRelation | None) -> StoredRelation:
    assert stored is not None
    return stored


def files(store: RelationStore) -> list[Path]:
    """All files of the store, also temporary and damaged ones."""
    return sorted(store.folder.iterdir()) if store.folder.exists() else []


def forget_positives(store: RelationStore) -> None:
    """Leave nothing in the store but the pairs of relations."""
    for entry in store.listing():
        if entry.relation == "positives":
            (store.folder / entry.file).unlink()


def rows_of(
    relations: Sequence[Relation],
    view: TrainingView,
    quantiles: tuple[float, ...],
    store: RelationStore | None = None,
    cap: int | None = None,
) -> DenseRows | TopKRows:
    """The rows of exact mode, or with a cap those of top-k mode."""
    if cap is None:
        return DenseRows(relations, view, quantiles, store)
    return TopKRows(relations, view, quantiles, cap, store=store)


def level_blocks(rows: DenseRows | TopKRows, nodes: torch.Tensor) -> list[torch.Tensor]:
    """Levels [b, V], relation by relation."""
    if isinstance(rows, DenseRows):
        return list(rows.levels(nodes))
    return [lists.dense_levels(rows.num_nodes) for lists in rows.above(nodes)]


class CallCounter:
    """Counts for which relations rows are computed or searched for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        original = SimilarityRows.tiles

        def counted(
            rows: SimilarityRows, nodes: torch.Tensor
        ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            self.names.append(rows.name)
            return original(rows, nodes)

        monkeypatch.setattr(SimilarityRows, "tiles", counted)

        def counted_search(relation: Relation, *given: Any) -> TopKSearch:
            search = topk_search(relation, *given)

            def find(nodes: torch.Tensor) -> SparseRows:
                self.names.append(relation.name)
                return search(nodes)

            return find

        monkeypatch.setattr(searched_lists, "topk_search", counted_search)
