from __future__ import annotations

import numpy as np
import pytest
import torch
from dense import all_rows, cosines, dense_adjacency, dense_attributes, off_diagonal
from hypothesis import given
from hypothesis import strategies as st
from strategies import make_view, views
from topk_search_oracle import as_lists, nearest

from xtcl.errors import UsageError
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_label_distribution import AttributeLabelDistribution
from xtcl.relations.view import TrainingView


def labels_of_the_alike(view: TrainingView, hops: int, quantile: float) -> np.ndarray:
    """S^k Y with S kept where it is above: pair by pair."""
    S = all_rows(AttributeDistribution(hops), view).astype(np.float64)
    total = np.zeros((view.num_nodes, max(view.num_classes, 1)))
    for u in range(view.num_nodes):
        others = [S[u, v] for v in range(view.num_nodes) if v != u]
        if not others:
            continue
        eta = np.quantile(others, quantile)
        for v in range(view.num_nodes):
            if v != u and S[u, v] >= eta and S[u, v] > 0 and view.labels[v] >= 0:
                total[u, view.labels[v]] += S[u, v]
    return total


# Quantiles that are exact in binary, or fall between two values for up to 18 nodes.
quantiles = st.sampled_from([0.0, 0.25, 0.5, 0.75, 0.99])


@given(views(), st.integers(1, 2), quantiles)
def test_equals_the_formula(view: TrainingView, hops: int, quantile: float) -> None:
    expected = cosines(labels_of_the_alike(view, hops, quantile))
    rows = all_rows(AttributeLabelDistribution(hops, quantile), view)
    np.testing.assert_allclose(rows, expected, atol=1e-6)


def labels_of_all(view: TrainingView, S: np.ndarray) -> np.ndarray:
    """S Y, sum by sum."""
    total = np.zeros((view.num_nodes, max(view.num_classes, 1)))
    for u in range(view.num_nodes):
        for v in range(view.num_nodes):
            if view.labels[v] >= 0:
                total[u, view.labels[v]] += S[u, v]
    return total


@given(views(), st.integers(1, 2))
def test_without_thresholds_it_is_the_printed_formula(view: TrainingView, hops: int) -> None:
    """Normalize(S Y) with all of S, as counted in plain loops from the printed cosines."""
    A, X = dense_adjacency(view), dense_attributes(view)
    S = cosines(np.linalg.matrix_power(A, hops) @ X)
    expected = cosines(labels_of_all(view, S))
    relation = AttributeLabelDistribution(hops, thresholded=False)
    np.testing.assert_allclose(all_rows(relation, view), expected, atol=1e-6)


@pytest.mark.parametrize("attributes", ["counts", "signed"])
@pytest.mark.parametrize("k", [1, 4, 30])
def test_the_printed_form_is_the_same_in_top_k_mode(attributes: str, k: int) -> None:
    """No list is cut before the labels are summed: rows and lists have the same factors."""
    view = make_view(30, 2, attributes=attributes)
    relation = AttributeLabelDistribution(thresholded=False)
    found = as_lists(nearest(relation, view, 0.0, k)(torch.arange(30)))
    for pairs, row in zip(found, off_diagonal(all_rows(relation, view)), strict=True):
        best = sorted(row[row > 0])[-k:]
        np.testing.assert_allclose(sorted(value for _, value in pairs), best, atol=1e-6)


def test_hidden_labels_are_not_in_the_printed_sums() -> None:
    view = make_view(20, 5)
    relation = AttributeLabelDistribution(thresholded=False)
    first = all_rows(relation, view)
    less = view.without_labels(np.flatnonzero(view.labels >= 0)[::2])
    fresh = TrainingView(less.attributes, less.adjacency, less.labels, less.num_classes)
    assert not np.array_equal(all_rows(relation, less), first)
    np.testing.assert_array_equal(all_rows(relation, less), all_rows(relation, fresh))


@given(views(), st.integers(1, 2))
def test_between_linked_nodes_labels_are_summed_over_links(view: TrainingView, hops: int) -> None:
    A, X = dense_adjacency(view), dense_attributes(view)
    S = A * cosines(np.linalg.matrix_power(A, hops) @ X)
    expected = A * cosines(labels_of_all(view, S))
    relation = AttributeLabelDistribution(hops, linked_only=True)
    np.testing.assert_allclose(all_rows(relation, view), expected, atol=1e-6)


def test_label_sets_share_the_pairs_but_not_the_labels() -> None:
    view = make_view(20, 5)
    relation = AttributeLabelDistribution(quantile=0.5)
    first = all_rows(relation, view)
    less = view.without_labels(np.flatnonzero(view.labels >= 0)[::2])
    assert less.label_free_cache is view.label_free_cache
    fresh = TrainingView(less.attributes, less.adjacency, less.labels, less.num_classes)
    assert not np.array_equal(all_rows(relation, less), first)
    np.testing.assert_array_equal(all_rows(relation, less), all_rows(relation, fresh))
    np.testing.assert_array_equal(all_rows(relation, view), first)


def test_other_parameters_do_not_share_the_pairs() -> None:
    view = make_view(20, 5)
    for hops, quantile in [(1, 0.5), (2, 0.5), (1, 0.9)]:
        relation = AttributeLabelDistribution(hops, quantile)
        fresh = TrainingView(view.attributes, view.adjacency, view.labels, view.num_classes)
        np.testing.assert_array_equal(all_rows(relation, view), all_rows(relation, fresh))


@pytest.mark.parametrize(
    "parameters", [{"hops": 0}, {"quantile": 1.0}, {"quantile": -0.1}, {"quantile": float("nan")}]
)
def test_refuses_bad_parameters(parameters: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"\.$"):
        AttributeLabelDistribution(**parameters)  # type: ignore[arg-type]
