"""Hubs: what is listed at once stays bounded, and no array has V times V entries."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch

from xtcl.relations import pagerank
from xtcl.relations import topk as parts
from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.relations.relation import Relation
from xtcl.relations.topk_dispatch import nearest
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


@pytest.mark.parametrize(
    "relation", [Link(), PageRank(), Jaccard(), Topology(), GraphDistance()], ids=repr
)
def test_a_hub_does_not_fill_the_memory(
    relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = 30_000
    monkeypatch.setattr(parts, "MAX_ITEMS", listed)
    monkeypatch.setattr(pagerank, "MAX_PATHS", listed)
    monkeypatch.setattr(pagerank, "SOURCES", 1000)
    view = star()
    find = nearest(relation, view, 0.99, 5)
    tracemalloc.start()
    found = find(torch.arange(LEAVES + 1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.start.diff() <= 5).all()
    assert peak < 200 * listed < 4 * LEAVES**2
