"""Searches on every device that is there, and PageRank's push by torch and by SciPy."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from nearest_oracle import Lists, as_lists, expected, nearest
from strategies import make_view, views
from test_nearest_pagerank import estimates, whole
from test_nearest_relations import COSINES, COUNTED

from xtcl.relations import pagerank, topk
from xtcl.relations.pagerank import TOLERANCE, PageRank, TorchPush
from xtcl.relations.relation import Relation
from xtcl.relations.sparse import CSRGraph
from xtcl.relations.view import TrainingView

devices = pytest.mark.parametrize("device", ["cpu", *["cuda"] * torch.cuda.is_available()])
SPARSE = COUNTED[:-1]
every_relation = pytest.mark.parametrize("relation", [*COUNTED, *COSINES, PageRank()], ids=repr)


@pytest.fixture
def _torch_pushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """PageRank is pushed by torch on a CPU, too."""

    def push(adjacency: sp.csr_array, alpha: float, error: float) -> TorchPush:
        links = CSRGraph.from_scipy(adjacency, torch.device("cpu"))
        return TorchPush(links, alpha, error)

    monkeypatch.setattr(pagerank, "ScipyPush", push)


def moved(view: TrainingView, device: str) -> TrainingView:
    return replace(view, device=torch.device(device), shared={}, lasting={})


def found(relation: Relation, view: TrainingView, quantile: float, k: int) -> Lists:
    return as_lists(nearest(relation, view, quantile, k)(torch.arange(view.num_nodes)))


@devices
@pytest.mark.parametrize("relation", SPARSE, ids=repr)
@pytest.mark.parametrize("shape", ["random", "star", "cliques", "isolated"])
@pytest.mark.parametrize("k", [3, 20])
def test_are_the_best_of_the_exact_row_but_for_rounding(
    relation: Relation, shape: str, k: int, device: str
) -> None:
    """Of logarithms on another device."""
    view = make_view(150, 1, shape)
    exact = expected(relation.in_topk_mode(), view, 0.9, k)
    for one, other in zip(found(relation, moved(view, device), 0.9, k), exact, strict=True):
        assert dict(one) == pytest.approx(dict(other), rel=1e-6)


@devices
@pytest.mark.parametrize("shape", ["random", "star", "cliques", "isolated"])
@pytest.mark.parametrize("k", [3, 20])
def test_both_pushes_find_the_same_but_for_rounding(
    shape: str, k: int, device: str, request: pytest.FixtureRequest
) -> None:
    """Of sums, which add up in another order."""
    view = make_view(150, 1, shape)
    by_scipy = found(PageRank(), view, 0.9, k)
    request.getfixturevalue("_torch_pushes")
    _are_alike_but_for_rounding(by_scipy, found(PageRank(), moved(view, device), 0.9, k))


def _are_alike_but_for_rounding(lists: Lists, others: Lists) -> None:
    """Where some are equal but for rounding, it decides who of them is last, and how many are."""
    close = partial(pytest.approx, rel=1e-5, abs=10 * TOLERANCE)
    for one, other in zip(lists, others, strict=True):
        shorter, longer = sorted(
            (sorted(dict(each).values())[::-1] for each in (one, other)), key=len
        )
        shorter += shorter[-1:] * (len(longer) - len(shorter))
        assert shorter == close(longer)
        common = dict(one).keys() & dict(other).keys()
        surely = [node for node, value in one if value > (1 + 1e-5) * longer[-1]]
        assert common >= set(surely)
        for node in common:
            assert dict(one)[node] == close(dict(other)[node])


@given(views(), st.sampled_from([0.3, 0.85, 0.95]), st.sampled_from([0.3, 0.03, 1e-3, 1e-6]))
def test_pushes_to_the_same_estimates(view: TrainingView, alpha: float, error: float) -> None:
    estimate = whole(TorchPush(view.links(), alpha, error), view.num_nodes)
    exact = estimates(view, alpha, error)
    np.testing.assert_allclose(estimate, np.where(exact > 1e-7, exact, 0.0), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("_torch_pushes")
@devices
@every_relation
@pytest.mark.parametrize("attributes", ["counts", "signed"])
def test_are_the_same_however_asked(
    relation: Relation, attributes: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = moved(make_view(300, 5, "random", attributes), device)
    search = nearest(relation, view, 0.9, 7)
    everything = as_lists(search(torch.arange(300)))
    order = torch.from_numpy(np.random.default_rng(0).permutation(300))
    assert as_lists(search(order)) == [everything[node] for node in order]
    for most, sources in ((100, 41), (1000, 7), (1, 1)):
        for name in ("MAX_ITEMS", "MAX_ITEMS_GPU"):
            monkeypatch.setattr(topk, name, most)
        for name in ("SOURCES", "SOURCES_GPU"):
            monkeypatch.setattr(pagerank, name, sources)
        for block in torch.split(order, 41):
            assert as_lists(search(block)) == [everything[node] for node in block]
    assert as_lists(search(torch.tensor([3, 3]))) == [everything[3]] * 2


@pytest.mark.parametrize("pushes", ["scipy", "torch"])
@pytest.mark.parametrize("relation", [*SPARSE, *COSINES, PageRank()], ids=repr)
def test_no_nodes_have_no_lists(
    relation: Relation, pushes: str, request: pytest.FixtureRequest
) -> None:
    if pushes == "torch":
        request.getfixturevalue("_torch_pushes")
    lists = nearest(relation, make_view(300, 5), 0.9, 7)(torch.arange(0))
    assert as_lists(lists) == []
    assert not len(lists.node)
