"""The two methods of boosted trees against columns made by dense products, and what each reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from xtcl.baselines import make_method
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import node_split
from xtcl.progress import Progress
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data
from xtcl.tasks.trees import fit_trees

GRAPH = block_model(90, num_classes=3, num_attributes=12, mean_degree=6)
SPLIT = node_split(GRAPH, 0.4, seed=1)
SIDE = training_data(GRAPH, SPLIT)


def answer(name: str, side: TrainingData = SIDE) -> np.ndarray:
    device = torch.device("cpu")
    found = make_method(name).fit(side, "nodes", seed=4, device=device, progress=Progress())
    assert isinstance(found, NodePredictions)
    return found.probabilities


def dense_columns(side: TrainingData) -> np.ndarray:
    """All columns of `trees-neighbours`, from the dense adjacency."""
    links = side.graph.adjacency.toarray().astype(np.float64)
    x = np.asarray(side.graph.attributes, dtype=np.float64)
    degree = links.sum(axis=1)
    mean = links / np.maximum(degree, 1)[:, None]
    own = np.eye(4)[side.labels][:, :3]  # -1 is the last row: none of the three classes
    prior = own.sum(axis=0) / own.sum()
    twice = links @ links
    np.fill_diagonal(twice, 0)
    around = []
    for counts in (links @ own, twice @ own):
        total = counts.sum(axis=1, keepdims=True)
        around += [(counts + prior) / (total + 1), total]
    return np.hstack(
        [x, mean @ x, mean @ mean @ x, degree[:, None], (mean @ degree)[:, None], *around]
    )


@pytest.mark.parametrize("name", ["trees", "trees-neighbours"])
def test_answers_are_calibrated_trees_on_the_columns(name: str) -> None:
    columns = np.asarray(GRAPH.attributes) if name == "trees" else dense_columns(SIDE)
    known = SPLIT.train
    trees = fit_trees(columns[known].astype(np.float32), SIDE.labels[known], seed=4)
    factor = trees.inverse_temperature_
    assert factor != 1.0
    scores = factor * trees.decision_function(columns.astype(np.float32))
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found = answer(name)
    assert found.shape == (90, 3)
    # Means that are summed in another order may fall on the other side of a threshold.
    assert (np.abs(found - expected).max(axis=1) < 1e-6).mean() > 0.97


def test_only_one_of_them_reads_links() -> None:
    side = replace(SIDE, graph=SIDE.graph.with_edges(np.zeros((2, 0), dtype=np.int64)))
    np.testing.assert_array_equal(answer("trees", side), answer("trees"))
    unlinked = answer("trees-neighbours", side)
    assert np.isfinite(unlinked).all()
    assert np.abs(unlinked - answer("trees-neighbours")).max() > 0.1


@pytest.mark.parametrize("name", ["trees", "trees-neighbours"])
def test_sparse_attributes_give_the_same(name: str) -> None:
    x = np.asarray(GRAPH.attributes) * (np.asarray(GRAPH.attributes) > 0.3)
    found = []
    for kind in (np.asarray, sp.csr_array):
        graph = Graph.from_arrays(kind(x), GRAPH.edges, GRAPH.labels)
        found.append(answer(name, training_data(graph, SPLIT)))
    np.testing.assert_array_equal(found[0], found[1])


def test_trees_without_attributes_answer_with_the_class_shares() -> None:
    bare = Graph.from_arrays(None, GRAPH.edges, GRAPH.labels, num_nodes=90)
    found = answer("trees", training_data(bare, SPLIT))
    assert np.ptp(found, axis=0).max() == 0
    counts = np.bincount(SIDE.labels[SPLIT.train])
    assert found[0].argmax() == counts.argmax()
    around = answer("trees-neighbours", training_data(bare, SPLIT)).argmax(axis=1)
    truth = np.asarray(GRAPH.labels)
    assert (around == truth)[SPLIT.test].mean() > (counts / counts.sum()).max() + 0.15


def test_a_class_without_a_label_has_no_chance() -> None:
    labels = np.where(SIDE.labels == 1, -1, SIDE.labels)
    side = replace(SIDE, graph=SIDE.graph.with_labels(labels))
    for name in ("trees", "trees-neighbours"):
        found = answer(name, side)
        assert found.shape == (90, 3)
        assert (found[:, 1] == 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
