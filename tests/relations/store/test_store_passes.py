"""A pass over the rows is the same to the byte without a store, with an empty and a full one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from small_stores import CallCounter, files, forget_positives
from strategies import make_view

from xtcl.relations.pattern_rows import PatternRows, all_nodes
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.store import RelationStore, pairs_file
from xtcl.relations.view import LINKS, TrainingView
from xtcl.sampling.crossfit import label_folds, link_folds
from xtcl.sampling.settings import SamplerSettings
from xtcl.sampling.xgsampler import XGSampler

SETTINGS = SamplerSettings(quantiles=(0.7, 0.95), sweeps=4)
TIE_BREAK = "attribute-distribution"


def result(
    task: str,
    store: RelationStore | None,
    *,
    height: int | None = None,
    relations: Any = "paper",
    tie_break: str | None = TIE_BREAK,
) -> tuple[bytes, ...]:
    """Counts, weights and positives of a fit on data that are made anew."""
    view = make_view(70, 1, attributes="signed")
    labels = view.labels

    def alike(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray(labels[u][:, None] == labels[v])

    rng = np.random.default_rng(0)
    folds = label_folds(view, alike, 3, rng) if task == "nodes" else link_folds(view, 3, rng)
    settings = SamplerSettings(quantiles=(0.7, 0.95), sweeps=4, tie_break=tie_break)
    sampler = XGSampler(relations, settings, block_rows=height, store=store).fit(view, folds)
    found = sampler.positives(6, exclude=view.adjacency if task == "links" else None)
    arrays = (sampler.counts_.codes, sampler.counts_.counts, found.nodes, found.scores)
    return (repr(sampler.relation_weights_).encode(), *(array.tobytes() for array in arrays))


@pytest.mark.parametrize("height", [1, 3, 64, None])
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_no_store_cold_and_warm_agree(
    task: str, height: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs_file, "GROUP_PAIRS", 200)
    plain = result(task, None)
    store = RelationStore(tmp_path)
    assert result(task, store, height=height) == plain
    assert result(task, store, height=height) == plain
    for again in (height, None):
        forget_positives(store)
        assert result(task, store, height=again) == plain


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_warm_fit_computes_nothing_and_a_search_among_kept_pairs_the_tie_break(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RelationStore(tmp_path)
    plain = result(task, store)
    before = files(store)
    calls = CallCounter(monkeypatch)
    assert result(task, store) == plain
    assert calls.names == []
    forget_positives(store)
    assert result(task, store) == plain
    assert set(calls.names) == {TIE_BREAK}
    assert files(store) == before
    calls.names.clear()
    result(task, store, tie_break=None)
    assert calls.names == []


def test_a_cold_fit_computes_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = CallCounter(monkeypatch)
    result("nodes", None)
    without = sorted(calls.names)
    calls.names.clear()
    result("nodes", RelationStore(tmp_path))
    assert sorted(calls.names) == without


def test_another_split_shares_what_does_not_read_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RelationStore(tmp_path)
    result("nodes", store)
    view = make_view(70, 1, attributes="signed")
    other = view.hiding_labels(np.flatnonzero(view.labels >= 0)[::2])
    calls = CallCounter(monkeypatch)
    rows = PatternRows(resolve_relations("paper"), other, SETTINGS.quantiles, store)
    with rows.over(all_nodes(70)) as passing:
        for _ in passing.levels(all_nodes(70)):
            pass
    # The last one spreads labels over the pairs of attribute distribution.
    assert set(calls.names) == {TIE_BREAK, "label-distribution", "attribute-label-distribution"}


def test_a_broken_off_pass_leaves_nothing(tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    rows = PatternRows(resolve_relations("paper"), make_view(40, 0), (0.9,), store)

    def part() -> None:
        with rows.over(all_nodes(40)) as passing:
            for number, nodes in enumerate(passing.blocks(all_nodes(40), 10)):
                list(passing.levels(nodes))
                if number == 2:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        part()
    assert files(store) == []
    with rows.over(all_nodes(40)) as passing:  # ends early, without an error
        list(passing.levels(all_nodes(40)[:10]))
    assert files(store) == []


def test_nodes_that_do_not_rise_are_computed_or_found(tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    view = make_view(40, 0)
    rows = PatternRows(resolve_relations("paper"), view, (0.9,), store)
    nodes = torch.tensor([7, 3, 30])
    expected = [level for _, level in PatternRows(rows.relations, view, (0.9,))(nodes)]
    for filled in (False, True):
        if filled:
            with rows.over(all_nodes(40)) as passing:
                list(passing.levels(all_nodes(40)))
        with rows.over(nodes) as passing:
            for found, wanted in zip(passing.levels(nodes), expected, strict=True):
                assert torch.equal(found, wanted)
        assert len(files(store)) == 9 * filled


@dataclass(frozen=True)
class Own(Relation):
    """Linked or not."""

    name: ClassVar[str] = "own"
    title: ClassVar[str] = "Own"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})

    def prepare(self, view: TrainingView) -> Rows:
        dense = torch.from_numpy(view.adjacency.toarray())
        return lambda nodes: dense[nodes]


def test_relations_of_the_user_pass_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = RelationStore(tmp_path)
    chosen = ["pagerank", Own()]
    plain = result("nodes", None, relations=chosen)
    assert result("nodes", store, relations=chosen) == plain
    calls = CallCounter(monkeypatch)
    assert result("nodes", store, relations=chosen) == plain
    assert set(calls.names) == {"own", TIE_BREAK}
    assert {entry.relation for entry in store.listing()} == {"pagerank"}


@pytest.mark.parametrize("group", [20, 2**18])  # fails on the way, or at the end
def test_a_full_disk_costs_the_store_and_not_the_fit(
    group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    plain = result("nodes", None)
    monkeypatch.setattr(pairs_file, "GROUP_PAIRS", group)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    store = RelationStore(tmp_path)
    with pytest.warns(UserWarning, match=r"computed but not kept.*No space left.*Make room"):
        assert result("nodes", store) == plain
    assert files(store) == []
