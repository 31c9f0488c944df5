"""A pass over the rows is the same to the byte without a store, with an empty and a full one."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from small_stores import CallCounter, files, forget_positives, level_blocks, rows_of
from strategies import make_view

from xtcl.config import SamplerConfig
from xtcl.graph.datasets.synthetic import block_model
from xtcl.relations import cosine as factors
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.rows import all_nodes
from xtcl.relations.store import parquet as pairs_file
from xtcl.relations.store.relation_store import RelationStore
from xtcl.relations.view import LINKS, TrainingView
from xtcl.sampling.folds import label_folds, link_folds
from xtcl.sampling.xgsampler import XGSampler

pytestmark = pytest.mark.slow


SETTINGS = SamplerConfig(quantiles=(0.7, 0.95), sweeps=4)
TIE_BREAK = "attribute-distribution"
CAPS = [None, 5]
capped_too = pytest.mark.parametrize("cap", CAPS, ids=["exact", "capped"])


def result(
    task: str,
    store: RelationStore | None,
    *,
    height: int | None = None,
    relations: Any = "paper",
    tie_break: str | None = TIE_BREAK,
    cap: int | None = None,
) -> tuple[bytes, ...]:
    """Counts, weights and positives of a fit on data that are made anew."""
    view = make_view(70, 1, attributes="signed")
    labels = view.labels

    def alike(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray(labels[u][:, None] == labels[v])

    rng = np.random.default_rng(0)
    folds = label_folds(view, alike, 3, rng) if task == "nodes" else link_folds(view, 3, rng)
    settings = SamplerConfig(quantiles=(0.7, 0.95), sweeps=4, tie_break=tie_break, cap=cap)
    sampler = XGSampler(relations, settings, block_rows=height, store=store).fit_folds(view, folds)
    found = sampler.positives(6, exclude=view.adjacency if task == "links" else None)
    arrays = (sampler.counts_.codes, sampler.counts_.counts, found.nodes, found.scores)
    return (repr(sampler.relation_weights_).encode(), *(array.tobytes() for array in arrays))


@pytest.mark.parametrize("height", [1, 3, 64, None])
@pytest.mark.parametrize("task", ["nodes", "links"])
@capped_too
def test_no_store_cold_and_warm_agree(
    cap: int | None,
    task: str,
    height: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs_file, "PAIRS_PER_GROUP", 200)
    plain = result(task, None, cap=cap)
    store = RelationStore(tmp_path)
    assert result(task, store, height=height, cap=cap) == plain
    assert result(task, store, height=height, cap=cap) == plain
    for again in (height, None):
        forget_positives(store)
        assert result(task, store, height=again, cap=cap) == plain


def test_exact_and_capped_fits_share_a_store(tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    plain = {cap: result("nodes", None, cap=cap) for cap in (None, 5, 6, 10**6)}
    for _ in range(2):
        for cap, expected in plain.items():
            assert result("nodes", store, cap=cap) == expected


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


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_warm_fit_with_a_cap_searches_for_nothing_even_without_positives(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RelationStore(tmp_path)
    plain = result(task, store, cap=5)
    before = files(store)
    calls = CallCounter(monkeypatch)
    assert result(task, store, cap=5) == plain
    forget_positives(store)
    assert result(task, store, cap=5) == plain  # ties are broken by cosines of single pairs
    assert calls.names == []
    assert files(store) == before


@capped_too
def test_a_cold_fit_computes_each_row_once(
    cap: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = CallCounter(monkeypatch)
    result("nodes", None, cap=cap)
    without = sorted(calls.names)
    assert without
    calls.names.clear()
    result("nodes", RelationStore(tmp_path), cap=cap)
    assert sorted(calls.names) == without


@pytest.mark.parametrize("labelled", [4, 1])  # folds of few rows, which build no index, and of many
def test_an_index_is_built_once_and_its_recall_is_kept(
    labelled: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    graph = block_model(600, num_classes=3, num_attributes=12, seed=1)

    def fitted(store: RelationStore | None) -> tuple[object, ...]:
        view = TrainingView.of(graph, np.arange(0, 600, labelled))
        folds = label_folds(view, None, 5, np.random.default_rng(0))
        settings = SamplerConfig(cap=4, index_past=100)
        sampler = XGSampler("paper", settings, store=store).fit_folds(view, folds)
        found = sampler.positives(5)
        arrays = (sampler.counts_.codes, sampler.counts_.counts, found.nodes, found.scores)
        return sampler.index_recall_, *(array.tobytes() for array in arrays)

    plain = fitted(None)
    assert plain[0]
    store = RelationStore(tmp_path)
    assert fitted(store) == plain
    for entry in store.listing():
        if entry.rows != "all":  # found by an index, where a few rows are searched exactly
            (tmp_path / entry.file).unlink()
    assert fitted(store) == plain
    monkeypatch.setattr(factors, "IndexSearch", None)
    assert fitted(store) == plain
    forget_positives(store)
    assert fitted(store) == plain


def test_another_split_shares_what_does_not_read_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RelationStore(tmp_path)
    result("nodes", store)
    view = make_view(70, 1, attributes="signed")
    other = view.without_labels(np.flatnonzero(view.labels >= 0)[::2])
    calls = CallCounter(monkeypatch)
    rows = rows_of(resolve_relations("paper"), other, SETTINGS.quantiles, store)
    with rows.over(all_nodes(70)) as passing:
        level_blocks(passing, all_nodes(70))
    # The last one spreads labels over the pairs of attribute distribution.
    assert set(calls.names) == {TIE_BREAK, "label-distribution", "attribute-label-distribution"}


@capped_too
def test_a_broken_off_pass_leaves_nothing(cap: int | None, tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    rows = rows_of(resolve_relations("paper"), make_view(40, 0), (0.9,), store, cap)

    def part() -> None:
        with rows.over(all_nodes(40)) as passing:
            for number, nodes in enumerate(torch.split(all_nodes(40), 10)):
                level_blocks(passing, nodes)
                if number == 2:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        part()
    assert files(store) == []
    with rows.over(all_nodes(40)) as passing:  # ends early, without an error
        level_blocks(passing, all_nodes(40)[:10])
    assert files(store) == []


@capped_too
def test_nodes_that_do_not_rise_are_computed_or_found(cap: int | None, tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    view = make_view(40, 0)
    rows = rows_of(resolve_relations("paper"), view, (0.5, 0.9), store, cap)
    nodes = torch.tensor([7, 3, 30])
    expected = level_blocks(rows_of(rows.relations, view, (0.5, 0.9), None, cap), nodes)
    for filled in (False, True):
        if filled:
            with rows.over(all_nodes(40)) as passing:
                level_blocks(passing, all_nodes(40))
        with rows.over(nodes) as passing:
            for found, wanted in zip(level_blocks(passing, nodes), expected, strict=True):
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


@capped_too
def test_relations_of_the_user_pass_by(
    cap: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RelationStore(tmp_path)
    chosen = ["pagerank", Own()]
    plain = result("nodes", None, relations=chosen, cap=cap)
    assert result("nodes", store, relations=chosen, cap=cap) == plain
    calls = CallCounter(monkeypatch)
    assert result("nodes", store, relations=chosen, cap=cap) == plain
    assert set(calls.names) == ({"own", TIE_BREAK} if cap is None else {"own"})
    assert {entry.relation for entry in store.listing()} == {"pagerank"}


@pytest.mark.parametrize("group", [20, 2**18])  # fails on the way, or at the end
@capped_too
def test_a_full_disk_costs_the_store_and_not_the_fit(
    cap: int | None, group: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    plain = result("nodes", None, cap=cap)
    monkeypatch.setattr(pairs_file, "PAIRS_PER_GROUP", group)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    store = RelationStore(tmp_path)
    with pytest.warns(UserWarning, match=r"computed but not stored.*No space left.*Make room"):
        assert result("nodes", store, cap=cap) == plain
    assert files(store) == []


@pytest.mark.parametrize("cap", [None, 5])
def test_a_folder_that_takes_no_file_costs_the_store_and_not_the_fit(
    cap: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    plain = result("nodes", None, cap=cap)
    monkeypatch.setattr(tempfile, "mkstemp", refused)
    store = RelationStore(tmp_path)
    with pytest.warns(UserWarning, match=r"not stored.*Permission denied.*name another folder"):
        assert result("nodes", store, cap=cap) == plain
    assert files(store) == []


@pytest.mark.parametrize("cap", [None, 5])
def test_a_damaged_file_on_a_full_disk_is_computed_and_not_kept(
    cap: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    plain, store = result("nodes", None, cap=cap), RelationStore(tmp_path)
    assert result("nodes", store, cap=cap) == plain
    for path in files(store):
        content = bytearray(path.read_bytes())
        content[8:40] = bytes(32)  # in the pages, so that it is noticed when they are read
        path.write_bytes(content)
    monkeypatch.setattr(tempfile, "mkstemp", full)
    with (
        pytest.warns(UserWarning, match="is damaged"),
        pytest.warns(UserWarning, match=r"not stored.*No space left"),
    ):
        assert result("nodes", store, cap=cap) == plain
