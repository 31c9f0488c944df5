from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from dense import all_rows, dense_adjacency, neighbours, off_diagonal
from hypothesis import given
from hypothesis import strategies as st
from strategies import views

from xtcl.errors import UsageError
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.view import TrainingView


def within(view: TrainingView, hops: int) -> list[set[int]]:
    """The nodes within `hops` steps of each node, without the node, by walking the links."""
    near = neighbours(view)
    found = []
    for u in range(view.num_nodes):
        seen = {u}
        for _ in range(hops):
            seen |= {w for v in seen for w in near[v]}
        found.append(seen - {u})
    return found


@given(views(), st.integers(1, 4))
def test_equals_the_formula(view: TrainingView, hops: int) -> None:
    near = within(view, hops)
    expected = np.zeros((view.num_nodes, view.num_nodes))
    for u in range(view.num_nodes):
        for v in range(view.num_nodes):
            if near[u] and near[v]:
                expected[u, v] = len(near[u] & near[v]) / (len(near[u]) * len(near[v]))
    np.testing.assert_allclose(all_rows(Jaccard(hops), view), expected, rtol=1e-6)


@given(views())
def test_counts_the_common_neighbours_of_networkx(view: TrainingView) -> None:
    graph = nx.from_numpy_array(dense_adjacency(view))
    degree = np.maximum(dense_adjacency(view).sum(axis=1), 1)
    shared = np.zeros((view.num_nodes, view.num_nodes))
    for u in graph:
        for v in graph:
            if u != v:
                shared[u, v] = len(list(nx.common_neighbors(graph, u, v)))
    rows = off_diagonal(all_rows(Jaccard(), view))
    np.testing.assert_allclose(rows * np.outer(degree, degree), shared, rtol=1e-6)


@pytest.mark.parametrize("hops", [0, -1])
def test_refuses_less_than_one_hop(hops: int) -> None:
    with pytest.raises(UsageError, match=r"Jaccard needs hops of at least 1.*\.$"):
        Jaccard(hops)
