from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from dense import all_rows, cosines, dense_attributes, neighbours
from hypothesis import given
from hypothesis import strategies as st
from strategies import views

from xtcl.errors import UsageError
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.view import TrainingView

# Small integers: their sums are exact, so that a sum that is zero is zero in single precision too.
EXACT = ["none", "zeros", "counts"]


def spread(view: TrainingView, values: np.ndarray, hops: int) -> np.ndarray:
    """Sum over neighbours, `hops` times."""
    near = neighbours(view)
    for _ in range(hops):
        values = np.array([sum((values[v] for v in near_u), 0 * values[0]) for near_u in near])
    return values


@given(views(attributes=EXACT), st.integers(1, 3))
def test_equals_the_formula(view: TrainingView, hops: int) -> None:
    expected = cosines(spread(view, dense_attributes(view), hops))
    np.testing.assert_allclose(all_rows(AttributeDistribution(hops), view), expected, atol=1e-6)


@given(views(attributes=["signed", "some zero rows"]))
def test_equals_the_formula_with_negative_attributes(view: TrainingView) -> None:
    expected = cosines(spread(view, dense_attributes(view), 1))
    np.testing.assert_allclose(all_rows(AttributeDistribution(), view), expected, atol=1e-5)


@given(views(attributes=EXACT[1:]), st.integers(1, 3))
def test_sparse_attributes_give_the_same_bits(view: TrainingView, hops: int) -> None:
    sparse = dataclasses.replace(
        view, attributes=sp.csr_array(view.attributes), label_free_cache={}, attribute_cache={}
    )
    rows = all_rows(AttributeDistribution(hops), view)
    np.testing.assert_array_equal(all_rows(AttributeDistribution(hops), sparse), rows)


def test_refuses_less_than_one_hop() -> None:
    with pytest.raises(UsageError, match=r"AttributeDistribution needs hops of at least 1.*\.$"):
        AttributeDistribution(0)
