"""Where the device has no room for a block it is halved, and nothing of the result changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from strategies import make_view
from torch import Tensor

from xtcl.config import SamplerConfig
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.blocks import run_in_blocks
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation, Rows, SimilarityRows
from xtcl.relations.sparse import SparseRows
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.topk_rows import TopKRows
from xtcl.relations.view import ATTRIBUTES, TrainingView
from xtcl.sampling.folds import label_folds, link_folds
from xtcl.sampling.xgsampler import XGSampler

ROOM = 9
NODES = 70


class Crowded(SimilarityRows):
    """Rows of which more than ROOM at a time do not fit."""

    asked: ClassVar[list[int]] = []

    def __call__(self, nodes: Tensor) -> Tensor:
        self.asked.append(len(nodes))
        if len(nodes) > ROOM:
            raise torch.OutOfMemoryError(f"no room for {len(nodes)} rows")
        return super().__call__(nodes)


@dataclass(frozen=True)
class Likeness(Relation):
    """The cosine of attributes, with or without room for it."""

    crowded: bool

    name: ClassVar[str] = "likeness"
    title: ClassVar[str] = "Likeness"
    reads: ClassVar[frozenset[str]] = frozenset({ATTRIBUTES})

    def prepare(self, view: TrainingView) -> Rows:
        return AttributeSimilarity().prepare(view)

    def on(self, view: TrainingView) -> SimilarityRows:
        kind = Crowded if self.crowded else SimilarityRows
        return kind(self.prepare(view), view.device, self.name, view.num_nodes, True)


def result(
    task: str,
    *,
    relations: list[Relation],
    cap: int | None = None,
    store: RelationStore | None = None,
    block_rows: int = 32,
) -> tuple[bytes, ...]:
    """Counts, positives and similarities of pairs, in blocks."""
    view = make_view(NODES, 1, attributes="signed")
    rng = np.random.default_rng(0)
    folds = label_folds(view, None, 3, rng) if task == "nodes" else link_folds(view, 3, rng)
    settings = SamplerConfig(quantiles=(0.7, 0.95), cap=cap)
    sampler = XGSampler(relations, settings, block_rows=block_rows, store=store).fit(view, folds)
    found = sampler.positives(6, exclude=view.adjacency if task == "links" else None)
    pairs = sampler.similarities(rng.integers(NODES, size=(2, 50)))
    counts = sampler.counts_
    arrays = (counts.codes, counts.counts, found.nodes, found.scores, pairs)
    return tuple(array.tobytes() for array in arrays)


def with_likeness(*, crowded: bool) -> list[Relation]:
    """All relations of the paper; the last of them lacks room, so that the others have run."""
    return [*resolve_relations("paper"), Likeness(crowded)]


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_counts_positives_and_similarities_stay_the_same(task: str) -> None:
    Crowded.asked.clear()
    plain = result(task, relations=with_likeness(crowded=False))
    assert result(task, relations=with_likeness(crowded=True)) == plain
    assert {32, 16, 8} <= set(Crowded.asked)


@pytest.mark.parametrize("cap", [None, 5])
@pytest.mark.parametrize("block_rows", [32, 33, 38])  # halves that end with a block, or do not
def test_a_store_gets_every_row_once(block_rows: int, cap: int | None, tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    plain = result("nodes", relations=with_likeness(crowded=False), cap=cap)
    for crowded in (True, False):
        relations = with_likeness(crowded=crowded)
        found = result("nodes", relations=relations, cap=cap, store=store, block_rows=block_rows)
        assert found == plain
        assert list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_lists_of_top_k_mode_too(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    relations = list(resolve_relations("paper"))
    plain = result(task, relations=relations, cap=5)
    original, asked = TopKRows.above, set()

    def crowded(rows: TopKRows, nodes: Tensor) -> Iterator[SparseRows]:
        asked.add(len(nodes))
        if len(nodes) > ROOM:
            raise torch.OutOfMemoryError
        return original(rows, nodes)

    monkeypatch.setattr(TopKRows, "above", crowded)
    assert result(task, relations=relations, cap=5) == plain
    assert {32, 16, 8} <= asked


def no_room_above(rows: int, asked: list[int]) -> Callable[[Tensor], list[int]]:
    def compute(nodes: Tensor) -> list[int]:
        asked.append(len(nodes))
        if len(nodes) > rows:
            raise torch.OutOfMemoryError("no room")
        found: list[int] = nodes.tolist()
        return found

    return compute


def test_the_smaller_height_stays() -> None:
    asked: list[int] = []
    found = list(run_in_blocks(no_room_above(3, asked), torch.arange(11), 8))
    assert found == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]
    assert asked == [8, 4, 2, 2, 2, 2, 2, 1]


def test_one_row_without_room_is_an_error() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="no room"):
        list(run_in_blocks(no_room_above(0, []), torch.arange(5), 4))


def test_no_nodes_are_no_blocks() -> None:
    assert list(run_in_blocks(no_room_above(9, []), torch.arange(0), 4)) == []
