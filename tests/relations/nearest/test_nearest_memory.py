"""Hubs: what is listed at once stays bounded, and no array has V times V entries."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from nearest_oracle import nearest
from torch.utils._python_dispatch import TorchDispatchMode

from xtcl.relations import pagerank, topk
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank, TorchPush, push_error
from xtcl.relations.relation import Relation
from xtcl.relations.topology import Topology
from xtcl.relations.view import TrainingView

LEAVES = 3000


def star() -> TrainingView:
    """A hub of degree LEAVES: every leaf has that many paths of two steps."""
    links = np.stack([np.zeros(LEAVES, dtype=np.int64), np.arange(1, LEAVES + 1)])
    return TrainingView(
        attributes=np.zeros((LEAVES + 1, 0), dtype=np.float32),
        adjacency=TrainingView.adjacency_of(links, LEAVES + 1),
        labels=np.full(LEAVES + 1, -1),
        num_classes=0,
    )


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes how many entries the largest tensor has that torch makes."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        for result in results if isinstance(results, (tuple, list)) else [results]:
            if isinstance(result, torch.Tensor):
                self.entries = max(self.entries, result.numel())
        return results


LISTED = 30_000
sparse = pytest.mark.parametrize(
    "relation", [Link(), PageRank(), Jaccard(), Topology(), GraphDistance()], ids=repr
)


@pytest.fixture
def _little_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread, because a mode of torch sees what its own thread does and nothing else."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(topk, "MAX_ITEMS", LISTED)
    monkeypatch.setattr(pagerank, "SOURCES", 1000)


@sparse
@pytest.mark.usefixtures("_little_at_once")
def test_a_hub_does_not_fill_the_memory(relation: Relation) -> None:
    search = nearest(relation, star(), 0.99, 5)
    with LargestTensor():  # type: ignore[no-untyped-call]
        torch.zeros(1)  # the first use of a mode imports much
    tracemalloc.start()  # of NumPy and SciPy
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        found = search(torch.arange(LEAVES + 1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.length <= 5).all()
    assert peak < 200 * LISTED < 4 * LEAVES**2
    # Topology adds as many nodes that share nothing.
    assert largest.entries < 3 * LISTED < LEAVES**2


@pytest.mark.usefixtures("_little_at_once")
def test_a_hub_does_not_fill_the_memory_of_the_push_by_torch() -> None:
    view = star()
    push = TorchPush(view.links(), 0.85, push_error(view, 5))
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        for _, lists in push(torch.arange(LEAVES + 1)):
            assert len(lists.row) < 3 * LISTED
    # A round of pushes may double what was there.
    assert largest.entries < 3 * LISTED < LEAVES**2
