"""Probabilities of many pairs against the explanation of each."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_runs import small_graph
from strategies import make_view, views

from xtcl.config import SamplerConfig
from xtcl.errors import NotFittedError, UsageError
from xtcl.relations.view import TrainingView
from xtcl.sampling.weights import weight_intervals
from xtcl.sampling.xgsampler import XGSampler

COUNT = 30
PAIRS = np.stack(np.divmod(np.arange(COUNT**2), COUNT))


def explained(sampler: XGSampler, count: int) -> np.ndarray:
    return np.array([[sampler.probability(u, v) for v in range(count)] for u in range(count)])


def check(sampler: XGSampler, count: int) -> None:
    expected = explained(sampler, count)
    order = np.random.default_rng(0).permutation(count**2)
    pairs = np.stack(np.divmod(np.r_[order, order[:7]], count))  # some of them twice
    np.testing.assert_array_equal(sampler.predict_proba(pairs), expected[tuple(pairs)])
    nodes = np.r_[order[:5] % count, order[0] % count]
    np.testing.assert_array_equal(sampler.predict_proba(nodes), expected[nodes])


@pytest.mark.slow
@pytest.mark.parametrize("block_rows", [None, 1, 7])
@pytest.mark.parametrize(
    "settings",
    [
        SamplerConfig((0.8,)),
        SamplerConfig((0.5, 0.9)),
        SamplerConfig((0.8,), cap=4),
        SamplerConfig((0.8,), cap=100),
        SamplerConfig((0.8,), positive_only=False, self_pairs=True, above_only=False),
    ],
    ids=str,
)
def test_in_bulk_it_is_that_of_each_pair(settings: SamplerConfig, block_rows: int | None) -> None:
    sampler = XGSampler(settings=settings, block_rows=block_rows).fit(make_view(COUNT, 0))
    check(sampler, COUNT)


@given(views(min_nodes=4, max_nodes=9), st.sampled_from([None, 2]))
def test_graphs_of_every_shape(view: TrainingView, cap: int | None) -> None:
    rng = np.random.default_rng(0)
    pairs = np.stack(np.nonzero(~np.eye(view.num_nodes, dtype=bool)))
    sampler = XGSampler(settings=SamplerConfig((0.6,), cap=cap))
    try:
        sampler.fit(view, pairs=pairs, alike=rng.random(pairs.shape[1]) < 0.5)
    except ValueError:
        assert not view.available
        return
    check(sampler, view.num_nodes)


def test_a_node_with_itself_is_above_for_no_relation() -> None:
    sampler = XGSampler().fit(make_view(COUNT, 0))
    nothing = 1 / (1 + np.exp(-(sampler.stumps_.base + sampler.stumps_.weights[:, 0].sum())))
    np.testing.assert_allclose(sampler.predict_proba([[3], [3]]), nothing)
    np.testing.assert_allclose(np.diag(sampler.predict_proba(range(COUNT))), nothing)


def test_positives_have_the_highest() -> None:
    sampler = XGSampler(settings=SamplerConfig((0.8,))).fit(make_view(COUNT, 0))
    found = sampler.positives(3)
    u, place = np.nonzero(found.filled)
    asked = sampler.predict_proba(np.stack([u, found.nodes[u, place]]))
    np.testing.assert_allclose(asked, found.probabilities[u, place], rtol=1e-6)


def test_numbers_masks_and_tensors() -> None:
    sampler = XGSampler().fit(make_view(COUNT, 0))
    whole = sampler.predict_proba(np.arange(COUNT))
    assert whole.shape == (COUNT, COUNT)
    mask = np.arange(COUNT) % 3 == 0
    asked: list[Any] = [mask, np.flatnonzero(mask), torch.from_numpy(mask), range(0, COUNT, 3)]
    for nodes in asked:
        np.testing.assert_array_equal(sampler.predict_proba(nodes), whole[::3])
    np.testing.assert_array_equal(sampler.predict_proba(torch.from_numpy(PAIRS)), whole.ravel())
    assert sampler.predict_proba([]).shape == (0, COUNT)
    assert sampler.predict_proba([[], []]).shape == (0,)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([[0, 1, 2]], r"pairs must be node numbers \[2, n\]"),
        ([[0], [COUNT]], "pairs must be numbers from 0 to 29"),
        ([-1], "nodes must be numbers from 0 to 29"),
        ([0.5], "nodes must be node numbers"),
    ],
)
def test_what_is_neither_pairs_nor_nodes(asked: Any, said: str) -> None:
    sampler = XGSampler().fit(make_view(COUNT, 0))
    with pytest.raises(UsageError, match=said):
        sampler.predict_proba(asked)


def test_nothing_comes_before_fit() -> None:
    with pytest.raises(NotFittedError, match=r"call fit first\.$"):
        XGSampler().predict_proba([0])
    with pytest.raises(NotFittedError, match=r"call fit first\.$"):
        _ = XGSampler().weight_intervals_


def test_intervals_and_copies() -> None:
    graph = small_graph()
    sampler = XGSampler().fit(graph)
    intervals = sampler.weight_intervals_
    assert intervals == weight_intervals(sampler)
    assert set(intervals) == {weight.relation for weight in sampler.relation_weights_}
    assert sampler.weight_intervals_ is intervals
    again = pickle.loads(pickle.dumps(sampler))  # noqa: S301
    assert again.weight_intervals_ == intervals
    np.testing.assert_array_equal(again.predict_proba([1, 2]), sampler.predict_proba([1, 2]))
    assert sampler.fit(graph, pairs=[[0, 1], [2, 3]], alike=[1, 0]).weight_intervals_ == {}
