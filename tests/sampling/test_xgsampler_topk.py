"""Top-k mode against its definition, and against exact mode where the cap leaves room for all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import topk_oracle
import torch
from dense import all_rows
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pattern_tables import count_patterns
from strategies import make_view, views

import xtcl
from xtcl.config import SamplerConfig
from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.relations import cosine as factors
from xtcl.relations import topk_rows as pairs
from xtcl.relations.registry import make_relation, resolve_relations
from xtcl.relations.search import IndexSearch
from xtcl.relations.topk_rows import TopKRows
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import Fold, label_folds, link_folds
from xtcl.sampling.positives import find_positives
from xtcl.sampling.stumps import Stumps
from xtcl.sampling.xgsampler import XGSampler

pytestmark = pytest.mark.slow


SPARSE = resolve_relations(["link", "jaccard", "topology", "graph-distance"])


"""Relations whose lists are the best of the whole row to the bit."""


QUANTILES = [(0.99,), (0.5, 0.9), (0.3, 0.7, 0.95)]


def folds_of(view: TrainingView, task: str, crossfit: int) -> list[Fold]:
    rng = np.random.default_rng(1)
    if task == "links":
        return link_folds(view, crossfit, rng)
    return label_folds(view, None, crossfit, rng)


def result(view: TrainingView, task: str, crossfit: int, **options: Any) -> tuple[Any, ...]:
    """Everything a fit says."""
    block_rows = options.pop("block_rows", None)
    sampler = XGSampler("paper", SamplerConfig(**options), block_rows=block_rows)
    sampler.fit_folds(view, folds_of(view, task, crossfit))
    exclude = view.adjacency if task == "links" else None
    found = sampler.positives(6, exclude=exclude)
    pairs = np.random.default_rng(0).integers(view.num_nodes, size=(2, 20))
    pairs = pairs[:, pairs[0] != pairs[1]]
    return (
        sampler.relation_weights_,
        sampler.counts_.codes.tolist(),
        sampler.counts_.counts.tolist(),
        found.nodes.tolist(),
        found.scores.tolist(),
        [sampler.explain(u, v) for u, v in pairs.T.tolist()],
        sampler.similarities(pairs).tolist(),
    )


@pytest.mark.parametrize("cap", [1, 3, 8])
@pytest.mark.parametrize("quantiles", QUANTILES)
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_counts_are_those_of_the_capped_patterns(
    task: str, quantiles: tuple[float, ...], cap: int
) -> None:
    view = make_view(40, cap, known=0.8)
    for fold in [*folds_of(view, task, 0), *folds_of(view, task, 3)]:
        code = topk_oracle.codes(SPARSE, fold.view, quantiles, cap)
        expected = topk_oracle.counted(fold, code)
        for height in (1, 7, 100):
            table = count_patterns(fold, TopKRows(SPARSE, fold.view, quantiles, cap), height)
            found = {
                (int(code), bool(y)): int(table.counts[at, y])
                for at, code in enumerate(table.codes)
                for y in (0, 1)
                if table.counts[at, y]
            }
            assert found == expected


@pytest.mark.parametrize(
    ("tie_break", "small"),
    [("link", 0), ("jaccard", 0), ("graph-distance", 0), ("graph-distance", 40), (None, 0)],
)
@pytest.mark.parametrize("quantiles", QUANTILES)
def test_positives_are_the_best_of_the_capped_patterns(
    quantiles: tuple[float, ...],
    tie_break: str | None,
    small: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs, "WIDER", 2)
    monkeypatch.setattr(pairs, "WHOLE_ROW_NODES", small)
    cap = 5
    view = make_view(40, 2)
    weights = np.random.default_rng(0).normal(size=(len(SPARSE), len(quantiles) + 1))
    stumps = Stumps(-0.5, weights)
    breaker = make_relation(tie_break) if tie_break else None
    similarity = None
    if breaker is not None:
        listed_alone = tie_break == "graph-distance" and not small
        known = 2 * cap if listed_alone else 40  # or every pair
        listed = topk_oracle.capped_levels(breaker, view, [0.0], known)
        similarity = np.where(listed > 0, all_rows(breaker, view), 0.0)
    code = topk_oracle.codes(SPARSE, view, quantiles, cap)
    for exclude in (None, view.adjacency):
        expected = topk_oracle.positives(code, stumps, 6, similarity, exclude)
        for height in (1, 7, 100):
            rows = TopKRows(SPARSE, view, quantiles, cap)
            found = find_positives(
                rows, stumps, 6, seed=0, height=height, tie_break=breaker, exclude=exclude
            )
            assert found.nodes.tolist() == expected


@settings(max_examples=12)
@given(
    views(min_nodes=4, labels=["many", "some unknown", "single"]),
    st.sampled_from(["nodes", "links"]),
    st.sampled_from([0, 3]),
    st.sampled_from(QUANTILES),
    st.sampled_from(["attribute-distribution", "pagerank", "graph-distance", None]),
)
def test_with_room_for_all_it_is_exact_mode(
    view: TrainingView, task: str, crossfit: int, quantiles: Any, tie_break: str | None
) -> None:
    assume((view.labels >= 0).sum() >= 2 and view.adjacency.nnz >= 4)
    options = {"quantiles": quantiles, "tie_break": tie_break}
    exact = result(view, task, crossfit, **options)
    assert result(view, task, crossfit, cap=view.num_nodes - 1, **options) == exact


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("quantiles", QUANTILES[:2])
def test_with_room_for_all_it_is_exact_mode_on_a_planted_graph(
    task: str, quantiles: tuple[float, ...]
) -> None:
    graph = block_model(150, num_classes=3, num_attributes=12, seed=0)
    view = TrainingView.of(graph, np.arange(0, 150, 2))
    exact = result(view, task, 4, quantiles=quantiles)
    assert result(view, task, 4, quantiles=quantiles, cap=149, block_rows=11) == exact
    assert result(view, task, 4, quantiles=quantiles, cap=10**6) == exact


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("cap", [1, 5])
def test_any_block_size_gives_the_same(task: str, cap: int) -> None:
    graph = block_model(150, num_classes=3, num_attributes=12, seed=1)
    view = TrainingView.of(graph, np.arange(0, 150, 2))
    whole = result(view, task, 3, quantiles=(0.7, 0.95), cap=cap)
    for block_rows in (1, 64):
        found = result(view, task, 3, quantiles=(0.7, 0.95), cap=cap, block_rows=block_rows)
        assert found == whole


def test_an_explanation_says_what_the_cap_left() -> None:
    view = make_view(60, 0, known=0.8)
    sampler = XGSampler("paper", SamplerConfig(quantiles=(0.5, 0.9), cap=3))
    sampler.fit_folds(view, folds_of(view, "nodes", 3))
    found = sampler.positives(5)
    relations = {relation.name: relation for relation in sampler.relations_}
    for u in range(0, 60, 9):
        listed = {
            relation.name: topk_oracle.capped_levels(relation, view, (0.5, 0.9), 3)[u]
            for relation in SPARSE
        }
        for place, v in enumerate(found.nodes[u].tolist()):
            if v < 0:
                continue
            why = sampler.explain(u, v)
            assert why.score == pytest.approx(float(found.scores[u, place]), abs=1e-5)
            for signal in why.signals:
                assert 0 <= signal.similarity <= 1
                if signal.relation in listed:
                    assert signal.level == listed[signal.relation][v]
                reached = [s for s in signal.thresholds if signal.similarity >= s > 0]
                assert signal.level <= len(reached) or relations[signal.relation] not in SPARSE


def test_a_relation_of_another_makes_whole_rows_and_keeps_the_cap() -> None:
    view = make_view(30, 0, known=1.0)

    class Own(type(SPARSE[0])):  # type: ignore[misc]
        name = "own"

    rows = TopKRows([Own()], view, (0.5,), 2)
    (lists,) = rows.above(torch.arange(30))
    assert torch.bincount(lists.row).max() <= 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cap": 0}, "cap=0 must be a whole number of at least 1"),
        ({"cap": 2.5}, "cap=2.5 must be a whole number"),
        ({"cap": -3}, "cap=-3"),
        ({"index_past": 5}, "index_past=5 is for top-k mode"),
        ({"cap": 4, "index_past": -1}, "index_past=-1"),
    ],
)
def test_senseless_caps_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=rf"{said}.*\.$"):
        SamplerConfig(**options).validated()


def test_with_an_index_any_block_size_gives_the_same() -> None:
    pytest.importorskip("faiss")
    graph = block_model(600, num_classes=3, num_attributes=12, seed=1)
    for labelled in (np.arange(0, 600, 20), np.arange(600)):
        view = TrainingView.of(graph, labelled)
        whole = result(view, "nodes", 3, cap=4, index_past=100)
        found = result(view, "nodes", 3, cap=4, index_past=100, block_rows=37)
        assert found == whole


def test_no_index_is_built_for_the_few_rows_of_a_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    built = []

    def record(rows: torch.Tensor, number: int) -> IndexSearch:
        built.append(rows.shape)
        return IndexSearch(rows, number)

    monkeypatch.setattr(factors, "IndexSearch", record)
    graph = block_model(600, num_classes=3, num_attributes=12, seed=1)
    view = TrainingView.of(graph, np.arange(0, 600, 4))
    sampler = XGSampler("paper", SamplerConfig(cap=4, index_past=0))
    sampler.fit_folds(view, folds_of(view, "nodes", 5))
    assert sampler.index_recall_ == {}
    assert len(built) == 2  # one for each relation of attributes, shared by all folds
    sampler.positives(5)
    assert len(built) == 4  # and one for each relation of labels
    sampler.positives(5)
    sampler.explain(0, 1)
    assert len(built) == 4
    assert len(sampler.index_recall_) == 4
    assert all(0 < recall <= 1 for recall in sampler.index_recall_.values())


# Top-k mode on 20,000 nodes takes less memory than one array of all pairs would.

COUNT = 20_000


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_no_array_of_all_pairs(task: str) -> None:
    """For nodes all of them are labelled: even a table of bytes would be 400 MB."""
    script = Path(__file__).parents[1] / "helpers" / "topk_process.py"
    source = str(Path(xtcl.__file__).parents[1])
    found = subprocess.run(  # noqa: S603
        [sys.executable, str(script), task, str(COUNT)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) < COUNT**2 * 0.75
