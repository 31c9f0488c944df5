"""Forward push: the proven bound, what it finds, and how much memory it takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from dense import all_rows
from hypothesis import given
from hypothesis import strategies as st
from nearest_oracle import as_lists, nearest, recall
from strategies import make_view, views

from xtcl.graph.datasets.load import load_dataset
from xtcl.relations import pagerank, topk
from xtcl.relations.pagerank import PageRank, Push, ScipyPush, push_error
from xtcl.relations.topk import TopK, topk_from_dense
from xtcl.relations.view import TrainingView


def estimates(view: TrainingView, alpha: float, error: float) -> np.ndarray:
    return whole(ScipyPush(view.adjacency, alpha, error), view.num_nodes)


def whole(push: Push, num_nodes: int) -> np.ndarray:
    """All estimates that a push makes."""
    estimate = np.zeros((num_nodes, num_nodes))
    for nodes, lists in push(torch.arange(num_nodes)):
        estimate[nodes[lists.row], lists.node] = lists.values
    return estimate


@given(views(), st.sampled_from([0.3, 0.85, 0.95]), st.sampled_from([0.3, 0.03, 1e-3, 1e-6]))
def test_is_below_the_exact_row_by_no_more_than_the_bound(
    view: TrainingView, alpha: float, error: float
) -> None:
    missing = all_rows(PageRank(alpha), view) - estimates(view, alpha, error)
    rounding = 1e-6
    assert missing.min() >= -rounding
    assert (missing <= error * np.diff(view.adjacency.indptr) + rounding).all()


@pytest.mark.parametrize("shape", ["random", "star", "cliques"])
def test_the_bound_holds_for_what_is_given(shape: str) -> None:
    view = make_view(400, 2, shape)
    exact = all_rows(PageRank(), view)
    degree = np.diff(view.adjacency.indptr)
    found = as_lists(nearest(PageRank(), view, 0.9, 20)(torch.arange(400)))
    for u, pairs in enumerate(found):
        for v, value in pairs:
            assert -1e-6 <= exact[u, v] - value <= push_error(view, 20) * degree[v] + 1e-6


def test_finds_most_of_the_best_on_cora() -> None:
    view = TrainingView.of(load_dataset("cora"))
    top = TopK(16, 16)
    nodes = torch.arange(0, view.num_nodes, 5)
    found = nearest(PageRank(), view, 0.99, 16)(nodes)
    exact = topk_from_dense(PageRank().on(view), top)(nodes)
    assert recall(found, exact) > 0.85


def test_a_small_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    view = make_view(400, 2)
    everything = as_lists(nearest(PageRank(), view, 0.9, 10)(torch.arange(400)))
    monkeypatch.setattr(topk, "MAX_ITEMS", 300)
    monkeypatch.setattr(pagerank, "SOURCES", 300)
    assert as_lists(nearest(PageRank(), view, 0.9, 10)(torch.arange(400))) == everything
