"""Searches with a bit for each node count the steps that SciPy's shortest paths leave."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import shortest_path
from strategies import make_view, random_links

from xtcl.relations import graph_distance as bit_search
from xtcl.relations.graph_distance import BitParallelBFS, GraphDistance


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
    monkeypatch.setattr(bit_search, "FEW", few)
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
