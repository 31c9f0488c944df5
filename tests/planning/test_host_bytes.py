"""The memory of the host beside a GPU: no less than an H200's host took, and hardly more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xtcl.planning.memory_plan import NO_LIMIT, plan_stages
from xtcl.planning.sizes import Sizes
from xtcl.tasks import make_task

GB = 2**30
MEASURED = {
    50_000: (1.88, 1.88, 2.13, 2.13, 2.68),
    1_000_000: (3.70, 3.79, 4.58, 3.89, 11.18),
}
"""Nodes, and GB resident at the peak of each stage (results/performance/million-h200.txt)."""


def work(nodes: int, device: str = "cuda") -> Sizes:
    recipe = make_task("nodes").recipe("gcn")
    recipe = replace(recipe, sampler=replace(recipe.sampler, cap=32))
    sizes = (nodes, 10 * nodes, 128, 4 * 128 * nodes, 8, nodes // 10)
    return Sizes("large", "nodes", *sizes, recipe, "gcn", device)


@pytest.mark.parametrize("nodes", MEASURED)
def test_as_measured(nodes: int) -> None:
    plan = plan_stages(work(nodes), NO_LIMIT)
    for stage, taken in zip(plan.stages, MEASURED[nodes], strict=True):
        assert stage.host_peak is not None
        assert 0.98 * taken <= stage.host_peak / GB <= 1.4 * taken
    assert plan.host_peak == max(stage.host_peak or 0 for stage in plan.stages)


def test_on_a_cpu_it_is_the_peak_itself() -> None:
    plan = plan_stages(work(50_000, "cpu"), NO_LIMIT)
    assert {stage.host_peak for stage in plan.stages} == {None}
    assert plan.host_peak is None
    assert plan.described()["host_peak_bytes"] is None


def test_as_plain_values() -> None:
    plan = plan_stages(work(50_000), NO_LIMIT)
    told = plan.described()
    assert told["host_peak_bytes"] == plan.host_peak
    assert [stage["host_peak"] for stage in told["stages"]] == [s.host_peak for s in plan.stages]
    assert told["peak_bytes"] == max(stage["peak"] for stage in told["stages"])
    assert told["first_fit_seconds"] == plan.first_fit
