from __future__ import annotations

import math

import numpy as np
import pytest
from dense import all_rows, dense_adjacency
from hypothesis import given
from sklearn.metrics import mutual_info_score
from strategies import make_view, views

from xtcl.relations.topology import Topology
from xtcl.relations.view import TrainingView


def mutual_information(a: np.ndarray, b: np.ndarray) -> float:
    """I(S_a; S_b) of two 0/1 rows, cell by cell of their joint table."""
    total = 0.0
    for x in (0, 1):
        for y in (0, 1):
            joint = float(np.mean((a == x) & (b == y)))
            if joint > 0:
                total += joint * math.log(joint / (np.mean(a == x) * np.mean(b == y)))
    return total


@given(views())
def test_equals_the_formula(view: TrainingView) -> None:
    A = dense_adjacency(view)
    expected = [[mutual_information(a, b) for b in A] for a in A]
    np.testing.assert_allclose(all_rows(Topology(), view), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("shape", ["random", "dense", "cliques", "star"])
def test_agrees_with_scikit_learn(shape: str) -> None:
    view = make_view(12, 3, shape)
    A = dense_adjacency(view).astype(int)
    expected = [[mutual_info_score(a, b) for b in A] for a in A]
    np.testing.assert_allclose(all_rows(Topology(), view), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_is_exactly_zero_for_independent_neighbourhoods(seed: int) -> None:
    """Rounding must not make a pair above that knows nothing: s > 0 decides in sparse rows."""
    view = make_view(15, seed, "dense")
    A = dense_adjacency(view)
    degree, shared = A.sum(axis=1), A @ A
    independent = shared * view.num_nodes == np.outer(degree, degree)
    assert independent.any()
    np.testing.assert_array_equal(all_rows(Topology(), view)[independent], 0)


@given(views())
def test_stays_within_log_two(view: TrainingView) -> None:
    assert all_rows(Topology(), view).max() <= math.log(2) + 1e-6
