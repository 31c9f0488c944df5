from __future__ import annotations

import numpy as np
import pytest
from dense import all_rows, cosines, neighbours
from hypothesis import given
from hypothesis import strategies as st
from strategies import views

from xtcl.errors import UsageError
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.view import TrainingView


def labels_on_walks(view: TrainingView, hops: int) -> np.ndarray:
    """How many walks of `hops` steps lead from each node to a training node of each class."""
    near = neighbours(view)

    def ends(u: int, steps: int) -> list[int]:
        return [u] if steps == 0 else [w for v in near[u] for w in ends(v, steps - 1)]

    counts = np.zeros((view.num_nodes, max(view.num_classes, 1)))
    for u in range(view.num_nodes):
        for end in ends(u, hops):
            if view.labels[end] >= 0:
                counts[u, view.labels[end]] += 1
    return counts


@given(views(max_nodes=10), st.integers(1, 3))
def test_equals_the_formula(view: TrainingView, hops: int) -> None:
    expected = cosines(labels_on_walks(view, hops))
    np.testing.assert_allclose(all_rows(LabelDistribution(hops), view), expected, atol=1e-6)


@given(views(max_nodes=10))
def test_the_paper_uses_two_hops(view: TrainingView) -> None:
    two = all_rows(LabelDistribution(hops=2), view)
    np.testing.assert_array_equal(all_rows(LabelDistribution(), view), two)


def test_refuses_less_than_one_hop() -> None:
    with pytest.raises(UsageError, match=r"LabelDistribution needs hops of at least 1.*\.$"):
        LabelDistribution(0)
