"""The columns that trees read, against loops over the nodes of a small graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import node_split
from xtcl.tasks.training_data import training_data
from xtcl.tasks.trees import degree_columns, fit_trees, label_columns, tree_columns

Codes = NDArray[np.int64]

# Node 5 has no link; 2 and 4 have no known label.

LINKS = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4)]
LABELS = np.array([0, 1, -1, 1, -1, 0])
CLASSES = 3  # the last has no known label
NEIGHBOURS = {
    u: sorted({b for a, b in LINKS if a == u} | {a for a, b in LINKS if b == u}) for u in range(6)
}


def small_graph(attributes: Any = None) -> Graph:
    return Graph.from_arrays(attributes, np.array(LINKS).T, num_nodes=6)


def shares(counts: list[float], prior: list[float]) -> list[float]:
    total = sum(counts)
    return [(n + p) / (total + 1) for n, p in zip(counts, prior, strict=True)] + [total]


def looped_labels(u: int, labels: Codes) -> list[float]:
    """Shares and count of the labels of neighbours, then of ends of paths that do not return."""
    known = [int(label) for label in labels if label >= 0]
    prior = [known.count(c) / max(1, len(known)) for c in range(CLASSES)]
    once, twice = [0.0] * CLASSES, [0.0] * CLASSES
    for v in NEIGHBOURS[u]:
        if labels[v] >= 0:
            once[labels[v]] += 1
        for w in NEIGHBOURS[v]:
            if w != u and labels[w] >= 0:
                twice[labels[w]] += 1
    return shares(once, prior) + shares(twice, prior)


@pytest.mark.parametrize("labels", [LABELS, np.full(6, -1), np.array([2, 0, 1, 0, 2, 1])])
def test_label_columns_are_counts_without_the_own_label(labels: Codes) -> None:
    found = label_columns(small_graph().adjacency, labels, CLASSES)
    expected = [looped_labels(u, labels) for u in range(6)]
    assert found.shape == (6, 2 * (CLASSES + 1))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_own_label_is_in_none_of_its_columns() -> None:
    graph = block_model(60, num_classes=3, num_attributes=4, mean_degree=6)
    labels = np.array(graph.labels)
    before = label_columns(graph.adjacency, labels, 3)
    for u in range(20):
        # Two nodes trade labels, so that the class shares stay: u sees no more than the other one.
        near = graph.adjacency[[u]].toarray()[0] > 0
        far = ~near & ((graph.adjacency @ near) == 0) & (labels != labels[u])
        for v in np.flatnonzero(far)[:3]:
            traded = labels.copy()
            traded[[u, v]] = labels[[v, u]]
            after = label_columns(graph.adjacency, traded, 3)
            np.testing.assert_array_equal(after[u], before[u])
            assert (after != before).any()


def looped_degrees(u: int) -> list[float]:
    degrees = [len(NEIGHBOURS[v]) for v in NEIGHBOURS[u]]
    return [len(degrees), sum(degrees) / len(degrees) if degrees else 0.0]


def test_link_columns_are_degrees_and_their_means() -> None:
    found = degree_columns(small_graph().adjacency)
    np.testing.assert_allclose(found, [looped_degrees(u) for u in range(6)], rtol=1e-6)


def looped_mean(rows: NDArray[Any], u: int) -> NDArray[Any]:
    total = np.zeros(rows.shape[1])
    for v in NEIGHBOURS[u]:
        total += rows[v]
    return total / max(1, len(NEIGHBOURS[u]))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_tree_columns_are_those_of_a_loop(kind: Callable[..., Any]) -> None:
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    extra = np.random.default_rng(1).normal(size=(6, 2))
    adjacency = small_graph().adjacency
    once = np.array([looped_mean(x, u) for u in range(6)])
    twice = np.array([looped_mean(once, u) for u in range(6)])
    around = [[*looped_degrees(u), *looped_labels(u, LABELS)] for u in range(6)]
    expected = np.hstack([x, once, twice, around, extra])
    found = tree_columns(kind(x), adjacency, LABELS, CLASSES, extra=extra)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-5, atol=1e-7)
    alone = tree_columns(kind(x), adjacency, LABELS, CLASSES, neighbours=False, extra=extra)
    np.testing.assert_allclose(alone.toarray(), np.hstack([x, extra]), rtol=1e-6)
    plain = tree_columns(kind(x), adjacency, LABELS, CLASSES, neighbours=False)
    np.testing.assert_array_equal(plain.toarray(), x)


def test_a_graph_without_attributes_has_columns_of_links_and_labels_alone() -> None:
    graph = small_graph()
    assert tree_columns(
        graph.attributes, graph.adjacency, LABELS, CLASSES, neighbours=False
    ).shape == (6, 0)
    found = tree_columns(graph.attributes, graph.adjacency, LABELS, CLASSES)
    expected = [[*looped_degrees(u), *looped_labels(u, LABELS)] for u in range(6)]
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-6)


def test_labels_of_other_nodes_change_nothing() -> None:
    graph = block_model(80, num_classes=3, num_attributes=6, mean_degree=6)
    split = node_split(graph, 0.4, seed=0)
    wrong = np.array(graph.labels)
    wrong[split.test] = np.random.default_rng(0).permutation(wrong[split.test])
    assert (wrong != graph.labels).any()
    found = []
    for each in (graph, graph.with_labels(wrong)):
        side = training_data(each, split)
        columns = tree_columns(each.attributes, each.adjacency, side.labels, 3)
        trees = fit_trees(columns[side.labelled], side.known_labels, seed=0, rounds=12)
        found.append((columns.toarray(), trees.decision_function(columns)))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
