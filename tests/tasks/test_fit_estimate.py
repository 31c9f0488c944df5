"""The estimate of a fit: of the right size where it was measured, growing with the graph."""

from __future__ import annotations

import pytest

from xtcl.graph.datasets import block_model, load_dataset
from xtcl.tasks.fit_estimate import estimate_fit


@pytest.mark.parametrize(("task", "seconds", "gigabytes"), [("nodes", 15, 1.5), ("links", 21, 1.0)])
def test_cora_as_measured(task: str, seconds: float, gigabytes: float) -> None:
    found = estimate_fit(load_dataset("cora"), task)
    assert seconds / 2 < found.seconds < 2 * seconds
    assert gigabytes / 2 < found.gigabytes < 2 * gigabytes


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_more_takes_more(task: str) -> None:
    small = estimate_fit(block_model(500), task)
    for larger in (block_model(5000), block_model(500, num_attributes=400)):
        found = estimate_fit(larger, task)
        assert found.seconds > small.seconds
        assert found.gigabytes > small.gigabytes
