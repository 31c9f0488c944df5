from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from dense import all_rows, dense_adjacency
from hypothesis import given
from hypothesis import strategies as st
from sknetwork.ranking import PageRank as SknetworkPageRank
from strategies import make_view, views

from xtcl.errors import UsageError
from xtcl.relations.pagerank import TOLERANCE, PageRank
from xtcl.relations.view import TrainingView

alphas = st.sampled_from([0.05, 0.3, 0.5, 0.85, 0.95, 0.99])


def solved(view: TrainingView, alpha: float) -> np.ndarray:
    """pi_u = alpha P pi_u + (1 - alpha) e_u, solved as it stands; row u is pi_u."""
    A = dense_adjacency(view)
    P = A / np.maximum(A.sum(axis=0), 1)
    return np.array(
        [
            np.linalg.solve(np.eye(view.num_nodes) - alpha * P, (1 - alpha) * e)
            for e in np.eye(view.num_nodes)
        ]
    )


@given(views(), alphas)
def test_equals_the_formula(view: TrainingView, alpha: float) -> None:
    rows = all_rows(PageRank(alpha), view)
    np.testing.assert_allclose(rows, solved(view, alpha), rtol=2e-5, atol=20 * TOLERANCE)


@given(views(), alphas)
def test_solves_its_own_equation(view: TrainingView, alpha: float) -> None:
    A = dense_adjacency(view)
    P = A / np.maximum(A.sum(axis=0), 1)
    for u, pi in enumerate(all_rows(PageRank(alpha), view).astype(np.float64)):
        again = alpha * P @ pi + (1 - alpha) * np.eye(view.num_nodes)[u]
        np.testing.assert_allclose(pi, again, atol=2e-6)


@given(views(), alphas)
def test_rows_of_linked_nodes_sum_to_one(view: TrainingView, alpha: float) -> None:
    linked = dense_adjacency(view).sum(axis=1) > 0
    total = all_rows(PageRank(alpha), view).astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(total[linked], 1, atol=1e-6 + 2e-7 / (1 - alpha))
    np.testing.assert_allclose(total[~linked], 1 - alpha, atol=1e-6)


@given(views(), alphas)
def test_is_positive_only_within_a_component(view: TrainingView, alpha: float) -> None:
    graph = nx.from_numpy_array(dense_adjacency(view))
    for u, row in enumerate(all_rows(PageRank(alpha), view)):
        assert {int(v) for v in np.flatnonzero(row)} <= nx.node_connected_component(graph, u)


@given(views())
def test_agrees_with_networkx(view: TrainingView) -> None:
    graph = nx.from_numpy_array(dense_adjacency(view))
    rows = all_rows(PageRank(), view)
    for u in range(view.num_nodes):
        if view.adjacency[[u]].nnz == 0:
            continue  # networkx restarts from nodes without links; elsewhere the two agree
        theirs = nx.pagerank(graph, alpha=0.85, personalization={u: 1.0}, tol=1e-12, max_iter=999)
        np.testing.assert_allclose(rows[u], [theirs[v] for v in graph], atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_scikit_network(seed: int) -> None:
    view = make_view(25, seed)
    rows = all_rows(PageRank(0.7), view)
    peer = SknetworkPageRank(damping_factor=0.7, solver="piteration", n_iter=200, tol=1e-12)
    for u in np.flatnonzero(dense_adjacency(view).sum(axis=1)):
        theirs = peer.fit_predict(dense_adjacency(view), weights={int(u): 1.0})
        np.testing.assert_allclose(rows[u], theirs, atol=1e-6)


@given(views(), alphas)
def test_detailed_balance(view: TrainingView, alpha: float) -> None:
    rows = all_rows(PageRank(alpha), view).astype(np.float64)
    degree = np.maximum(dense_adjacency(view).sum(axis=1), 1)
    flow = rows * degree[:, None]
    np.testing.assert_allclose(flow, flow.T, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.5, 2.0, float("nan")])
def test_refuses_alpha_outside_the_open_interval(alpha: float) -> None:
    with pytest.raises(UsageError, match=r"0 < alpha < 1.*\.$"):
        PageRank(alpha)
