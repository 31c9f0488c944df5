"""What rows of relations that count common neighbours take, beside what torch's profiler sees."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from xtcl.graph.datasets import block_model
from xtcl.planning.relation_bytes import BESIDE, PAIR_BYTES, overlap_bytes, row_bytes
from xtcl.planning.workload import Workload
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.relation import Relation
from xtcl.relations.topology import Topology
from xtcl.relations.view import TrainingView
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.training_side import TrainingSide

NODES = 300


def of_degree(degree: float, device: str = "cuda") -> Workload:
    side = TrainingSide(block_model(NODES, mean_degree=degree))
    return Workload.of(side, "nodes", NodeClassification().recipe("gcn"), device=device)


def measured(relation: Relation, degree: float) -> float:
    """The most bytes a pair that are there at once while rows of all nodes are made."""
    compute = relation.prepare(TrainingView.of(block_model(NODES, mean_degree=degree)))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        compute(torch.arange(NODES))
    events = watched.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    return max(accumulate(int(size) for _, size in changes)) / NODES**2


@pytest.mark.parametrize("relation", [Topology(), Jaccard()], ids=lambda each: each.name)
@pytest.mark.parametrize("degree", [3, 15, 100])
def test_is_no_less_than_rows_take(relation: Relation, degree: float) -> None:
    told = overlap_bytes(of_degree(degree)) - BESIDE
    assert measured(relation, degree) <= max(1.001 * told, PAIR_BYTES)


def test_where_all_nodes_share_neighbours_it_is_what_topology_takes() -> None:
    told = overlap_bytes(of_degree(100)) - BESIDE
    assert measured(Topology(), 100) == pytest.approx(told, rel=0.001)


def test_a_gpu_makes_the_rows_of_a_block_at_once() -> None:
    sparse, dense = of_degree(3), of_degree(100)
    assert row_bytes(sparse) == PAIR_BYTES * NODES
    assert row_bytes(dense) == overlap_bytes(dense) * NODES > 2 * row_bytes(sparse)
    assert row_bytes(replace(dense, device="cpu")) == PAIR_BYTES * NODES


def test_a_node_that_all_know_makes_all_share_one() -> None:
    flat = of_degree(3)
    star = replace(flat, paths=NODES**2)
    assert overlap_bytes(star) == overlap_bytes(of_degree(100)) > overlap_bytes(flat)
    assert overlap_bytes(replace(flat, paths=None)) <= overlap_bytes(flat)
