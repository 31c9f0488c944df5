"""The searches by torch against the exact rows, and against those by NumPy and SciPy.

On CPU tensors; where there is a GPU, what may hang on the device runs there, too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from nearest_oracle import Lists, as_lists, expected
from strategies import make_view, views
from test_nearest_memory import LEAVES, star
from test_nearest_pagerank import estimates
from test_nearest_relations import COSINES, COUNTED, caps, quantiles
from torch.utils._python_dispatch import TorchDispatchMode

from xtcl.relations import pagerank
from xtcl.relations import topk as parts
from xtcl.relations import topk as use
from xtcl.relations.common_neighbours import Links
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.link import Link
from xtcl.relations.pagerank import TOLERANCE, PageRank, Push
from xtcl.relations.relation import Relation
from xtcl.relations.topk_dispatch import nearest
from xtcl.relations.topology import Topology
from xtcl.relations.view import TrainingView

devices = pytest.mark.parametrize("device", ["cpu", *["cuda"] * torch.cuda.is_available()])
SPARSE = COUNTED[:-1]
every_relation = pytest.mark.parametrize("relation", [*COUNTED, *COSINES, PageRank()], ids=repr)


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use, "DEVICES", frozenset({"cpu", "cuda"}))


def moved(view: TrainingView, device: str) -> TrainingView:
    return replace(view, device=torch.device(device), shared={}, lasting={})


def found(relation: Relation, view: TrainingView, quantile: float, cap: int) -> Lists:
    return as_lists(nearest(relation, view, quantile, cap)(torch.arange(view.num_nodes)))


def both_ways(
    relation: Relation, view: TrainingView, quantile: float, cap: int, device: str = "cpu"
) -> list[Lists]:
    """By NumPy, and by torch on the device."""
    lists = []
    with pytest.MonkeyPatch.context() as patch:
        for where, explored in (("cpu", ""), (device, device)):
            patch.setattr(use, "DEVICES", frozenset({explored}))
            lists.append(found(relation, moved(view, where), quantile, cap))
    return lists


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("relation", COUNTED, ids=repr)
@given(view=views(), quantile=quantiles, cap=caps)
def test_are_the_best_of_the_exact_row(
    relation: Relation, view: TrainingView, quantile: float, cap: int
) -> None:
    assert found(relation, view, quantile, cap) == expected(relation, view, quantile, cap)


@pytest.mark.parametrize("relation", [*COUNTED, *COSINES], ids=repr)
@given(view=views(), quantile=quantiles, cap=caps)
def test_are_what_numpy_finds(
    relation: Relation, view: TrainingView, quantile: float, cap: int
) -> None:
    by_numpy, by_torch = both_ways(relation, view, quantile, cap)
    assert by_torch == by_numpy


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("relation", [*COUNTED, *COSINES], ids=repr)
@pytest.mark.parametrize("shape", ["random", "star", "cliques", "isolated"])
@pytest.mark.parametrize("cap", [3, 20])
def test_several_hundred_nodes(relation: Relation, shape: str, cap: int) -> None:
    view = make_view(300, 1, shape, "counts")
    assert found(relation, view, 0.9, cap) == expected(relation, view, 0.9, cap)


@devices
@pytest.mark.parametrize("relation", [*SPARSE, PageRank()], ids=repr)
@pytest.mark.parametrize("shape", ["random", "star", "cliques", "isolated"])
@pytest.mark.parametrize("cap", [3, 20])
def test_are_what_numpy_finds_but_for_rounding(
    relation: Relation, shape: str, cap: int, device: str
) -> None:
    """Of sums, which add up in another order, and of logarithms on another device."""
    by_numpy, by_torch = both_ways(relation, make_view(150, 1, shape), 0.9, cap, device)
    if relation == PageRank():
        _are_alike_but_for_rounding(by_numpy, by_torch)
        return
    for one, other in zip(by_numpy, by_torch, strict=True):
        assert dict(one) == pytest.approx(dict(other), rel=1e-6)


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
    estimate = np.zeros((view.num_nodes, view.num_nodes))
    for nodes, lists in Push(Links.among(view), alpha, error)(torch.arange(view.num_nodes)):
        estimate[nodes[lists.row], lists.node] = lists.value
    exact = estimates(view, alpha, error)
    np.testing.assert_allclose(estimate, np.where(exact > 1e-7, exact, 0.0), rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("on_device")
@devices
@every_relation
@pytest.mark.parametrize("attributes", ["counts", "signed"])
def test_are_the_same_however_asked(
    relation: Relation, attributes: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = moved(make_view(300, 5, "random", attributes), device)
    find = nearest(relation, view, 0.9, 7)
    everything = as_lists(find(torch.arange(300)))
    order = torch.from_numpy(np.random.default_rng(0).permutation(300))
    assert as_lists(find(order)) == [everything[node] for node in order]
    for most, sources in ((100, 41), (1000, 7), (1, 1)):
        monkeypatch.setattr(parts, "MAX_ITEMS", most)
        monkeypatch.setattr(pagerank, "SOURCES", sources)
        for block in torch.split(order, 41):
            assert as_lists(find(block)) == [everything[node] for node in block]
    assert as_lists(find(torch.tensor([3, 3]))) == [everything[3]] * 2


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("relation", [*SPARSE, *COSINES, PageRank()], ids=repr)
def test_nobody_asked_for(relation: Relation) -> None:
    lists = nearest(relation, make_view(300, 5), 0.9, 7)(torch.arange(0))
    assert as_lists(lists) == []
    assert not len(lists.nodes)


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps how many entries the largest tensor has that torch makes."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in results if isinstance(results, (tuple, list)) else [results]:
            if isinstance(result, torch.Tensor):
                self.entries = max(self.entries, result.numel())
        return results


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize(
    "relation", [Link(), PageRank(), Jaccard(), Topology(), GraphDistance()], ids=repr
)
def test_a_hub_does_not_fill_the_memory(
    relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = 30_000
    monkeypatch.setattr(parts, "MAX_ITEMS", listed)
    find = nearest(relation, star(), 0.99, 5)
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        lists = find(torch.arange(LEAVES + 1))
    assert (lists.start.diff() <= 5).all()
    # A round of pushes may double what was there; topology adds as many who share nothing.
    assert largest.entries < 3 * listed < LEAVES**2
