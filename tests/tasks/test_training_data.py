"""The training side of a split holds the training data, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit, link_split, node_split
from xtcl.graph.validation import Repairs
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data


@given(graphs(labels=["many", "some unknown"]), st.data())
def test_nodes_keep_all_links_and_the_training_labels_only(
    graph: Graph, data: st.DataObject
) -> None:
    assert graph.labels is not None
    train = data.draw(st.lists(st.integers(0, graph.num_nodes - 1), unique=True))
    split = NodeSplit(np.array(train, dtype=np.int64), np.arange(0), 0)
    side = training_data(graph, split)
    for node in range(graph.num_nodes):
        expected = graph.labels[node] if node in train else -1
        assert side.labels[node] == expected
    assert side.labelled.tolist() == [n for n in sorted(train) if graph.labels[n] >= 0]
    np.testing.assert_array_equal(side.graph.edges, graph.edges)
    assert side.graph.classes == graph.classes
    assert side.non_links is None


def test_links_keep_the_training_links_and_no_labels_unless_asked() -> None:
    graph = block_model(60)
    split = link_split(graph)
    side = training_data(graph, split)
    np.testing.assert_array_equal(side.graph.edges, split.train)
    np.testing.assert_array_equal(side.negatives, split.train_negatives)
    assert side.graph.labels is None
    assert side.graph.classes == ()
    assert side.labelled.size == 0
    asked = training_data(graph, split, use_labels=True)
    np.testing.assert_array_equal(asked.graph.edges, split.train)
    np.testing.assert_array_equal(asked.labels, graph.labels)


def test_links_keep_the_repairs_of_the_whole_graph() -> None:
    whole = block_model(60)
    loop = np.array([[0], [0]])
    graph = whole.with_edges(np.concatenate([whole.edges, whole.edges[:, :1], loop], axis=1))
    assert graph.repairs == Repairs(duplicates_merged=1, loops_dropped=1)
    assert training_data(graph, link_split(graph)).graph.repairs == graph.repairs


def test_what_is_not_there_is_refused() -> None:
    bare = Graph.from_arrays(np.eye(4), [[0, 1], [1, 2]], name="bare")
    told = r"'bare' has no labels.* Graph\.from_scipy\(A, labels=.*label=.*or use task='links'"
    with pytest.raises(DataError, match=told):
        _ = TrainingData(bare).labels
    with pytest.raises(UsageError, match=r"use link_split\(graph\)"):
        _ = TrainingData(bare).negatives


@pytest.mark.parametrize("node", [60, 1000])
def test_training_nodes_outside_the_graph_are_named(node: int) -> None:
    graph = block_model(60)
    split = NodeSplit(np.array([0, node]), np.arange(5, 8), 0)
    with pytest.raises(DataError, match=f"names training node {node}"):
        training_data(graph, split)


def test_a_link_split_of_another_graph_is_named() -> None:
    with pytest.raises(DataError, match="use the graph it was made from"):
        training_data(block_model(60), link_split(block_model(50)))


def test_node_scores_are_those_of_the_test_nodes() -> None:
    graph = block_model(60, num_classes=3)
    assert graph.labels is not None
    split = node_split(graph, 0.5)
    perfect = np.eye(3)[graph.labels]
    wrong = perfect.copy()
    wrong[split.train] = np.roll(wrong[split.train], 1, axis=1)  # training nodes do not count
    wrong[split.test[:6]] = np.roll(wrong[split.test[:6]], 1, axis=1)
    assert score_test_side(NodePredictions(perfect), graph, split)["accuracy"] == 1.0
    found = score_test_side(NodePredictions(wrong), graph, split)["accuracy"]
    assert found == pytest.approx(1 - 6 / len(split.test))


def test_link_scores_are_those_of_the_test_pairs() -> None:
    graph = block_model(60)
    split = link_split(graph)
    links = {(int(u), int(v)) for u, v in split.test.T}

    def known(pairs: np.ndarray) -> np.ndarray:
        return np.array([float((int(u), int(v)) in links) for u, v in pairs.T])

    assert score_test_side(LinkScores(known), graph, split)["auc"] == 1.0
    assert score_test_side(LinkScores(lambda p: -known(p)), graph, split)["auc"] == 0.0
    constant = LinkScores(lambda pairs: np.zeros(pairs.shape[1]))
    assert score_test_side(constant, graph, split)["auc"] == 0.5


def test_the_likeliest_class_is_the_prediction() -> None:
    answer = NodePredictions(np.array([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]]))
    assert answer.predictions.tolist() == [1, 0]


def test_a_split_of_the_wrong_kind_or_graph_is_named() -> None:
    graph = block_model(60, num_classes=3)
    nodes, links = node_split(graph), link_split(graph)
    answer = NodePredictions(np.full((60, 3), 1 / 3))
    with pytest.raises(UsageError, match="A split of links cannot score"):
        score_test_side(answer, graph, links)
    with pytest.raises(UsageError, match="A split of nodes cannot score"):
        score_test_side(LinkScores(lambda pairs: pairs[0]), graph, nodes)
    outside = NodeSplit(np.arange(2), np.array([3, 60]), 0)
    with pytest.raises(DataError, match="use the graph it was made from"):
        score_test_side(answer, graph, outside)
