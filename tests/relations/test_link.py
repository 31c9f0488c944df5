from __future__ import annotations

import networkx as nx
import numpy as np
from dense import all_rows, dense_adjacency
from hypothesis import given
from strategies import views

from xtcl.relations.link import Link
from xtcl.relations.view import TrainingView


@given(views())
def test_equals_the_formula(view: TrainingView) -> None:
    A = dense_adjacency(view)
    count = view.num_nodes
    degree = [1 + sum(A[u]) for u in range(count)]
    expected = np.zeros((count, count))
    for u in range(count):
        for v in range(count):
            expected[u, v] = (A[u, v] + (u == v)) / np.sqrt(degree[u] * degree[v])
    np.testing.assert_allclose(all_rows(Link(), view), expected, rtol=1e-6)


@given(views())
def test_is_networkx_normalised_laplacian_of_the_graph_with_loops(view: TrainingView) -> None:
    looped = nx.from_numpy_array(dense_adjacency(view) + np.eye(view.num_nodes))
    laplacian = nx.normalized_laplacian_matrix(looped).toarray()
    expected = np.eye(view.num_nodes) - laplacian
    np.testing.assert_allclose(all_rows(Link(), view), expected, atol=1e-6)


@given(views())
def test_is_positive_exactly_for_links(view: TrainingView) -> None:
    rows = all_rows(Link(), view)
    np.fill_diagonal(rows, 0)
    np.testing.assert_array_equal(rows > 0, dense_adjacency(view) > 0)
