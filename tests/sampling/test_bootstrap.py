"""Counts by group, and the intervals that are made from them."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import small_graph, small_model

from xtcl.sampling.patterns import NODE_GROUPS, PatternCounts
from xtcl.sampling.weights import weight_intervals
from xtcl.sampling.xgsampler import XGSampler


@pytest.fixture(scope="module")
def sampler() -> XGSampler:
    return small_model(epochs=1).fit(small_graph()).sampler_


def test_groups_add_up_to_the_whole(sampler: XGSampler) -> None:
    assert sampler.groups_ is not None
    codes, counts = sampler.groups_.by_group()
    assert len(counts) == NODE_GROUPS
    np.testing.assert_array_equal(codes, sampler.counts_.codes)
    np.testing.assert_array_equal(counts.sum(axis=0), sampler.counts_.counts)
    # Eighty nodes in five folds, dealt evenly: a group has the pairs of one node or of two, each
    # with the fifteen others of its fold.
    assert set(counts.sum(axis=(1, 2)).tolist()) == {15, 30}


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_groups_hang_on_no_block_size(task: str) -> None:
    tables = []
    for memory in (None, "1GB"):
        model = small_model(task, epochs=1, memory=memory).fit(small_graph())
        groups = model.sampler_.groups_
        assert groups is not None
        tables.append((groups.table.codes.tolist(), groups.table.counts.tolist()))
    assert tables[0] == tables[1]


def test_intervals_are_those_of_refits(sampler: XGSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xtcl.sampling.weights.RESAMPLES", 12)
    found = weight_intervals(sampler)
    assert sampler.groups_ is not None
    codes, counts = sampler.groups_.by_group()
    rng = np.random.default_rng([sampler.random_state_, 1])
    again = XGSampler(sampler.relations, sampler.settings)
    drawn: dict[str, list[tuple[float, float]]] = {name: [] for name in found}
    for times in rng.multinomial(NODE_GROUPS, [1 / NODE_GROUPS] * NODE_GROUPS, 12):
        total = np.zeros_like(counts[0])
        for group, often in enumerate(times):
            for _ in range(often):
                total += counts[group]
        for weight in again.restore(sampler.view_, PatternCounts(codes, total)).relation_weights_:
            drawn[weight.relation].append((weight.w1, weight.precision))
    for name, interval in found.items():
        weights, precisions = zip(*drawn[name], strict=True)
        assert interval.weight == pytest.approx(np.percentile(weights, (2.5, 97.5)))
        assert interval.precision == pytest.approx(np.percentile(precisions, (2.5, 97.5)))


def test_without_groups_there_are_no_intervals(sampler: XGSampler) -> None:
    again = XGSampler(sampler.relations, sampler.settings)
    again.restore(sampler.view_, sampler.counts_)
    assert again.groups_ is None
    assert weight_intervals(again) == {}
    assert again.relation_weights_ == sampler.relation_weights_
