from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from dense import all_rows, dense_adjacency, off_diagonal
from hypothesis import given
from sknetwork.path import get_distances
from strategies import make_view, views

from xtcl.relations.graph_distance import GraphDistance
from xtcl.relations.view import TrainingView


def floyd_warshall(A: np.ndarray) -> np.ndarray:
    """Steps between every two nodes, infinite without a path."""
    distance = np.where(A > 0, 1.0, np.inf)
    np.fill_diagonal(distance, 0)
    for middle in range(len(A)):
        for u in range(len(A)):
            for v in range(len(A)):
                around = distance[u, middle] + distance[middle, v]
                distance[u, v] = min(distance[u, v], around)
    return distance


def diameter_of_largest(distance: np.ndarray) -> float:
    """Diameter of the largest component; of the one with the lowest node where several tie."""
    components = [np.isfinite(row) for row in distance]
    largest = max(components, key=lambda members: int(members.sum()))
    return max(float(distance[np.ix_(largest, largest)].max()), 1.0)


def similarity(distance: np.ndarray) -> np.ndarray:
    D = diameter_of_largest(distance)
    return np.maximum((D - distance + 1) / D, 0)


@given(views(max_nodes=14))
def test_equals_the_formula(view: TrainingView) -> None:
    expected = similarity(floyd_warshall(dense_adjacency(view)))
    rows = all_rows(GraphDistance(), view)
    np.testing.assert_allclose(off_diagonal(rows), off_diagonal(expected), rtol=1e-6)
    np.testing.assert_array_equal(np.diag(rows), 1)


@given(views())
def test_agrees_with_networkx_paths(view: TrainingView) -> None:
    distance = np.full((view.num_nodes, view.num_nodes), np.inf)
    graph = nx.from_numpy_array(dense_adjacency(view))
    for u, lengths in nx.all_pairs_shortest_path_length(graph):
        for v, length in lengths.items():
            distance[u, v] = length
    rows = off_diagonal(all_rows(GraphDistance(), view))
    np.testing.assert_allclose(rows, off_diagonal(similarity(distance)), rtol=1e-6)


@pytest.mark.parametrize("shape", ["random", "path", "cycle", "cliques"])
def test_agrees_with_scikit_network_distances(shape: str) -> None:
    view = make_view(20, 1, shape)
    distance = np.array(
        [get_distances(dense_adjacency(view), source=u) for u in range(view.num_nodes)],
        dtype=np.float64,
    )
    distance[distance < 0] = np.inf
    rows = off_diagonal(all_rows(GraphDistance(), view))
    np.testing.assert_allclose(rows, off_diagonal(similarity(distance)), rtol=1e-6)


def test_a_component_wider_than_the_largest_loses_the_order_beyond() -> None:
    """A star of six (diameter 2) beside a path of five (diameter 4)."""
    star = [(0, v) for v in range(1, 6)]
    path = [(v, v + 1) for v in range(6, 10)]
    links = np.array(star + path).T
    view = TrainingView(
        attributes=np.zeros((11, 0), dtype=np.float32),
        adjacency=TrainingView.adjacency_of(links, 11),
        labels=np.full(11, -1),
        num_classes=0,
    )
    assert all_rows(GraphDistance(), view)[6, 6:].tolist() == [1.0, 1.0, 0.5, 0.0, 0.0]
