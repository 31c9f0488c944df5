from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense import dense_adjacency
from hypothesis import given
from strategies import views

from xtcl.relations.diameter import (
    MOST_STEPS,
    UNREACHED,
    bounds_of_steps,
    hop_distances,
    largest_component_diameter,
)
from xtcl.relations.view import TrainingView


def first_largest(graph: nx.Graph[Any]) -> nx.Graph[Any]:
    """The largest component; the one with the lowest node where several tie."""
    components = sorted(nx.connected_components(graph), key=min)
    return graph.subgraph(max(components, key=len))


def adjacency_of(graph: nx.Graph[Any]) -> sp.csr_array:
    return sp.csr_array(nx.to_numpy_array(graph).astype(np.float32))


@given(views())
def test_agrees_with_networkx_on_small_graphs(view: TrainingView) -> None:
    expected = nx.diameter(first_largest(nx.from_numpy_array(dense_adjacency(view))))
    assert largest_component_diameter(view.adjacency) == max(expected, 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("degree", [1.2, 2.0, 5.0])
def test_agrees_with_networkx_on_random_graphs(seed: int, degree: float) -> None:
    graph = nx.fast_gnp_random_graph(150, degree / 150, seed=seed)
    assert largest_component_diameter(adjacency_of(graph)) == nx.diameter(first_largest(graph))


@pytest.mark.parametrize(
    ("graph", "diameter"),
    [
        (nx.path_graph(40), 39),
        (nx.cycle_graph(41), 20),
        (nx.balanced_tree(2, 5), 10),
        (nx.grid_2d_graph(6, 9), 13),
        (nx.lollipop_graph(6, 7), 8),
        (nx.hypercube_graph(5), 5),
        (nx.complete_graph(9), 1),
    ],
)
def test_known_diameters(graph: nx.Graph[Any], diameter: int) -> None:
    assert largest_component_diameter(adjacency_of(graph)) == diameter


def test_where_components_tie_the_one_with_the_lowest_node_counts() -> None:
    path, star = nx.path_graph(5), nx.star_graph(4)
    assert largest_component_diameter(adjacency_of(nx.disjoint_union(path, star))) == 4
    assert largest_component_diameter(adjacency_of(nx.disjoint_union(star, path))) == 2


@given(views())
def test_hop_distances_agree_with_networkx(view: TrainingView) -> None:
    graph = nx.from_numpy_array(dense_adjacency(view))
    for u in graph:
        lengths = nx.single_source_shortest_path_length(graph, u)
        expected = [lengths.get(v, UNREACHED) for v in graph]
        assert hop_distances(view.adjacency, u).tolist() == expected


@pytest.mark.parametrize("searches", [1, 2, 5, 1000])
def test_few_searches_give_an_upper_bound(searches: int) -> None:
    graph = nx.fast_gnp_random_graph(150, 3 / 150, seed=3)
    exact = nx.diameter(first_largest(graph))
    bound = largest_component_diameter(adjacency_of(graph), searches)
    assert exact <= bound <= 2 * exact
    assert searches < 1000 or bound == exact


def test_bounds_of_long_ways_do_not_overflow() -> None:
    """On a path of as many nodes as a kernel can count steps, searched from both ends."""
    most = MOST_STEPS - 1
    place = np.arange(most + 1)
    distances = np.stack([place, most - place])
    steps = np.where(distances == 0, most, most - distances + 1).astype(np.int16)
    nodes = torch.tensor([0, most])
    lower, upper = bounds_of_steps(torch.from_numpy(steps.T.copy()), nodes, most)
    assert np.array_equal(lower, np.maximum(place, most - place))
    assert np.array_equal(upper, most + np.minimum(place, most - place))
