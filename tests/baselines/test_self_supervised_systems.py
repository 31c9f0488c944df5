"""What every self-supervised system must do, whatever it learns from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from xtcl.baselines import METHODS
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split, node_split
from xtcl.lab.methods.asp import ASP, ASPSettings
from xtcl.lab.methods.dgi import DGI, DGISettings
from xtcl.lab.methods.polygcl import PLAIN, PolyGCL
from xtcl.lab.methods.self_supervised import SelfSupervised
from xtcl.lab.methods.sugrl import SUGRL, SUGRLSettings
from xtcl.progress import Progress
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data

CPU = torch.device("cpu")
GRAPH = block_model(
    200, num_classes=3, num_attributes=30, mean_degree=10, homophily=0.95, attribute_signal=1.5
)
SYSTEMS: dict[str, SelfSupervised] = {
    "dgi": DGI(DGISettings(width=32, learning_rate=5e-3, epochs=150)),
    "sugrl": SUGRL(SUGRLSettings(layers=(32, 16), epochs=60)),
    "asp": ASP(ASPSettings(width=16, neighbours=8, far_hops=4, epochs=60)),
    "polygcl": PolyGCL(
        replace(PLAIN, width=32, learning_rate=1e-2, filter_rate=1e-2, epochs=100, dropout=0.2)
    ),
}
each_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)


def rows_of(system: SelfSupervised, graph: Graph, seed: int = 0) -> np.ndarray:
    return system.embed(graph, seed=seed, device=CPU, progress=Progress())


def test_none_is_left_out() -> None:
    known = {name for name, kind in METHODS.items() if issubclass(kind, SelfSupervised)}
    assert SYSTEMS.keys() == known


@each_system
def test_classes_of_a_planted_graph_are_found(system: SelfSupervised) -> None:
    split = node_split(GRAPH, 0.1, seed=3)
    side = training_data(GRAPH, split)
    answer = system.fit(side, "nodes", seed=0, device=CPU, progress=Progress())
    assert score_test_side(answer, GRAPH, split)["accuracy"] > 0.9  # chance: 0.33


@each_system
def test_links_of_a_planted_graph_outscore_non_links(system: SelfSupervised) -> None:
    split = link_split(GRAPH, 0.8, seed=3)
    side = training_data(GRAPH, split)
    answer = system.fit(side, "links", seed=0, device=CPU, progress=Progress())
    assert score_test_side(answer, GRAPH, split)["auc"] > 0.75  # nobody gets far above 0.8


@each_system
def test_the_same_seed_repeats_to_the_byte_and_another_does_not(system: SelfSupervised) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (rows_of(system, GRAPH, seed) for seed in (5, 5, 6))
    assert first.tobytes() == again.tobytes()
    assert not np.allclose(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


@each_system
def test_lonely_nodes_and_missing_attributes_are_embedded(system: SelfSupervised) -> None:
    away = (GRAPH.edges < 20).any(axis=0)
    bare = Graph.from_arrays(None, GRAPH.edges[:, ~away], num_nodes=202)
    for graph in (bare, GRAPH.with_edges(np.zeros((2, 0), np.int64))):
        found = rows_of(system, graph)
        assert len(found) == graph.num_nodes
        assert np.isfinite(found).all()


@each_system
def test_a_class_with_one_label_is_answered(system: SelfSupervised) -> None:
    labels, known = np.full(200, -1), np.array(GRAPH.labels)
    for code, count in enumerate((1, 5, 5)):
        labels[np.flatnonzero(known == code)[:count]] = code
    side = TrainingData(GRAPH.with_labels(labels))
    answer = system.fit(side, "nodes", seed=0, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    assert answer.probabilities.shape == (200, 3)
    np.testing.assert_allclose(answer.probabilities.sum(axis=1), 1.0)
