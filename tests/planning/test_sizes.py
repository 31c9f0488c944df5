"""The estimated peak of a fit: of the right size where it was measured, growing with the graph."""

from __future__ import annotations

import pytest

from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.planning.memory_plan import NO_LIMIT, expected_sizes, plan_stages

SHARES = {"nodes": 0.1, "links": 0.6}


def peak(graph: Graph, task: str) -> int:
    return plan_stages(expected_sizes(graph, task, SHARES[task]), NO_LIMIT).peak


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_cora_as_measured(task: str) -> None:
    assert 1.0 / 1.5 < peak(load_dataset("cora"), task) / 2**30 < 1.5 * 1.0


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_more_takes_more(task: str) -> None:
    small = peak(block_model(500), task)
    for larger in (block_model(5000), block_model(500, num_attributes=400)):
        assert peak(larger, task) > small
