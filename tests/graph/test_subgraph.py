"""Parts of graphs against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import graphs, make_graph

from xtcl.errors import DataError
from xtcl.graph.graph import Graph
from xtcl.graph.subgraph import ego_subgraph, subgraph


@given(graph=graphs(), share=st.floats(0, 1), seed=st.integers(0, 9))
def test_nodes_and_the_links_among_them(graph: Graph, share: float, seed: int) -> None:
    nodes = np.flatnonzero(np.random.default_rng(seed).random(graph.num_nodes) < share)
    assume(len(nodes) >= 2)
    inside = set(nodes.tolist())
    expected = {(u, v) for u, v in graph.edges.T.tolist() if {u, v} <= inside}
    if not expected and not graph.num_attributes:  # no graph at all
        with pytest.raises(DataError, match="neither attributes nor edges"):
            subgraph(graph, nodes)
        return
    part = subgraph(graph, nodes)
    assert {(nodes[u], nodes[v]) for u, v in part.edges.T.tolist()} == expected
    assert part.num_nodes == len(nodes)
    assert part.name == graph.name
    assert part.classes == graph.classes
    if graph.labels is not None:
        np.testing.assert_array_equal(part.labels, graph.labels[nodes])


@pytest.mark.parametrize("number", [2, 7, 30, 60, 100])
def test_the_nearest_nodes_of_the_hub(number: int) -> None:
    graph = make_graph(60, seed=2)
    part = ego_subgraph(graph, number)
    kept = np.arange(60) if part.node_ids is None else np.asarray(part.node_ids)
    dense = graph.adjacency.toarray() > 0
    distance = np.full(60, np.inf)
    distance[graph.degrees.argmax()] = 0
    for _ in range(60):
        distance = np.minimum(distance, np.where(dense, distance, np.inf).min(axis=1) + 1)
    assert part.num_nodes == min(number, int(np.isfinite(distance).sum()))
    outside = np.setdiff1d(np.arange(60), kept)
    if len(outside):
        assert distance[kept].max() <= distance[outside].min()
