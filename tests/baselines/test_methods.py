"""What every control must do, whatever it is: answer well, repeat, and see training data only."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
import torch

from xtcl.baselines.gat import GAT
from xtcl.baselines.gcn import GCN
from xtcl.baselines.logistic import Logistic
from xtcl.baselines.method import Method
from xtcl.baselines.propagation import PropagationMethod
from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split, node_split
from xtcl.progress import Progress
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data

CPU = torch.device("cpu")
CONTROLS = {
    "gcn": GCN(epochs=40),
    "gat": GAT(epochs=40),
    "logistic": Logistic(),
    "propagation": PropagationMethod(),
}
each_control = pytest.mark.parametrize("method", CONTROLS.values(), ids=CONTROLS)


def planted(**changes: float) -> Graph:
    return block_model(200, num_classes=3, num_attributes=30, mean_degree=10, **changes)  # type: ignore[arg-type]


GRAPH = planted(homophily=0.95, attribute_signal=1.5)
NODES = node_split(GRAPH, 0.2, seed=3)
LINKS = link_split(GRAPH, 0.8, seed=3)


def nodes_of(method: Method, side: TrainingData, seed: int = 0) -> np.ndarray:
    answer = method.fit(side, "nodes", seed=seed, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    return answer.probabilities


def links_of(method: Method, side: TrainingData, seed: int = 0) -> np.ndarray:
    answer = method.fit(side, "links", seed=seed, device=CPU, progress=Progress())
    assert isinstance(answer, LinkScores)
    return answer.score(np.hstack([LINKS.test, LINKS.test_negatives]))


@each_control
def test_classes_of_a_planted_graph_are_found(method: Method) -> None:
    found = nodes_of(method, training_data(GRAPH, NODES))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert score_test_side(NodePredictions(found), GRAPH, NODES)["accuracy"] > 0.8  # chance: 0.33


@each_control
def test_links_of_a_planted_graph_outscore_non_links(method: Method) -> None:
    side = training_data(GRAPH, LINKS)
    answer = method.fit(side, "links", seed=0, device=CPU, progress=Progress())
    # Links inside a class cannot be told from its non-links: nobody gets far above 0.8 here.
    assert score_test_side(answer, GRAPH, LINKS)["auc"] > 0.7


def global_states() -> list[bytes]:
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002
    states = torch.random.get_rng_state().tolist(), numpy_state, random.getstate()
    return [pickle.dumps(state) for state in states]


@each_control
def test_same_seed_gives_same_bytes_and_leaves_the_global_state(method: Method) -> None:
    sides = training_data(GRAPH, NODES), training_data(GRAPH, LINKS)
    links_of(method, sides[1], 5)  # a library may draw a number while it is imported
    before = global_states()
    first = nodes_of(method, sides[0], 5), links_of(method, sides[1], 5)
    assert global_states() == before
    with torch.random.fork_rng():
        torch.manual_seed(99)
        second = nodes_of(method, sides[0], 5), links_of(method, sides[1], 5)
    assert [a.tobytes() for a in first] == [a.tobytes() for a in second]


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_another_seed_gives_another_network(name: str) -> None:
    side = training_data(GRAPH, NODES)
    assert not np.allclose(nodes_of(CONTROLS[name], side, 1), nodes_of(CONTROLS[name], side, 2))


@each_control
def test_test_labels_change_nothing(method: Method) -> None:
    assert GRAPH.labels is not None
    wrong = np.array(GRAPH.labels)
    wrong[NODES.test] = np.random.default_rng(0).permutation(wrong[NODES.test])
    other = GRAPH.with_labels(wrong)
    expected = nodes_of(method, training_data(GRAPH, NODES))
    np.testing.assert_array_equal(nodes_of(method, training_data(other, NODES)), expected)


@each_control
def test_test_links_change_nothing(method: Method) -> None:
    other = GRAPH.with_edges(LINKS.train)
    expected = links_of(method, training_data(GRAPH, LINKS))
    np.testing.assert_array_equal(links_of(method, training_data(other, LINKS)), expected)


@each_control
def test_a_graph_without_attributes_is_answered(method: Method) -> None:
    bare = Graph.from_arrays(None, GRAPH.edges, GRAPH.labels, num_nodes=GRAPH.num_nodes)
    found = nodes_of(method, training_data(bare, NODES))
    assert found.shape == (200, 3)
    accuracy = score_test_side(NodePredictions(found), bare, NODES)["accuracy"]
    assert accuracy > 0.6 or method.name == "logistic"
    assert np.isfinite(links_of(method, training_data(bare, LINKS))).all()


@each_control
def test_nothing_to_learn_from_is_said(method: Method) -> None:
    unknown = TrainingData(GRAPH.with_labels(np.full(200, -1)))
    with pytest.raises(DataError):
        nodes_of(method, unknown)
    unlinked = TrainingData(GRAPH.with_edges(np.zeros((2, 0), np.int64)), LINKS.train_negatives)
    with pytest.raises(DataError):
        links_of(method, unlinked)


@each_control
def test_the_side_of_a_node_split_cannot_train_links(method: Method) -> None:
    with pytest.raises(UsageError, match="needs a link split"):
        links_of(method, training_data(GRAPH, NODES))
