"""Searches with a bit for each node count the steps that SciPy's shortest paths leave."""

from __future__ import annotations

import tracemalloc

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense import all_rows, dense_adjacency, off_diagonal
from hypothesis import given
from scipy.sparse.csgraph import shortest_path
from sknetwork.path import get_distances
from strategies import make_view, random_links, views

from xtcl.relations import graph_distance as bit_search
from xtcl.relations.graph_distance import BitParallelBFS, GraphDistance
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


# Searches with a bit for each node count the steps that SciPy's shortest paths leave.


def star(num_nodes: int) -> sp.csr_array:
    links = np.zeros((num_nodes, num_nodes), dtype=np.float32)
    links[7, :7] = links[7, 8:] = links[:7, 7] = links[8:, 7] = 1.0
    return sp.csr_array(links)


def path(num_nodes: int) -> sp.csr_array:
    links = np.eye(num_nodes, k=1) + np.eye(num_nodes, k=-1)
    return sp.csr_array(links.astype(np.float32))


GRAPHS: dict[str, sp.csr_array] = {
    "sparse": random_links(90, 0.02),
    "dense": random_links(90, 0.5),
    "star": star(90),
    "path": path(90),
    "no links": sp.csr_array(np.zeros((90, 90), dtype=np.float32)),
}


def steps_by_definition(links: sp.csr_array, nodes: np.ndarray, most: int) -> np.ndarray:
    """How many of the steps 1 .. `most` are no shorter than the distance."""
    distance = shortest_path(links, unweighted=True)[nodes]
    steps = np.arange(1, most + 1)
    return np.asarray((distance[:, :, None] <= steps).sum(axis=2))


@pytest.mark.parametrize("few", [0, 3, 32, 1000])
@pytest.mark.parametrize("most", [1, 2, 5, 16])
@pytest.mark.parametrize("number", [1, 64, 130])
@pytest.mark.parametrize("graph", GRAPHS)
def test_steps_are_counted_from_distances(
    graph: str, number: int, most: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bit_search, "MIN_ROWS_PER_PASS", few)
    nodes = np.random.default_rng(0).integers(0, 90, number)  # some of them twice
    found = BitParallelBFS(GRAPHS[graph]).steps_within_reach(nodes, most)
    assert np.array_equal(found, steps_by_definition(GRAPHS[graph], nodes, most))


@pytest.mark.parametrize("most", [255, 256, 299, 400])
def test_long_ways_are_counted_too(most: int) -> None:
    nodes = np.array([0, 150, 299])
    found = BitParallelBFS(path(300)).steps_within_reach(nodes, most)
    assert np.array_equal(found, steps_by_definition(path(300), nodes, most))


def test_memory_is_that_of_the_answer_and_not_of_all_pairs() -> None:
    count = 4000
    search = BitParallelBFS(random_links(count, 4 / count))
    tracemalloc.start()
    search.steps_within_reach(np.arange(64), 12)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 64 * count <= peak < 3 * 64 * count


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_divide_the_nodes_and_change_nothing(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = make_view(300, 0)
    expected = GraphDistance().on(view)(torch.arange(300))
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert torch.equal(GraphDistance().on(view)(torch.arange(300)), expected)
