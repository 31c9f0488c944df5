"""Filters against the eigendecomposition of the Laplacian, interpolation against Lagrange's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.lab.methods import polygcl as chebyshev
from xtcl.lab.methods.polygcl import (
    Filtered,
    MonotoneFilters,
    chebyshev_points,
    interpolation,
    shifted_laplacian,
)

ORDER = 6


def graph_with_a_lonely_node() -> Graph:
    graph = block_model(30, num_classes=3, num_attributes=4, mean_degree=4)
    away = (graph.edges == 0).any(axis=0)
    return graph.with_edges(graph.edges[:, ~away])


GRAPH = graph_with_a_lonely_node()
LAPLACIAN = shifted_laplacian(torch.from_numpy(np.array(GRAPH.edge_index)), GRAPH.num_nodes)


def dense_laplacian(graph: Graph) -> np.ndarray:
    """I - D^-1/2 A D^-1/2, entry by entry."""
    adjacency = graph.adjacency.toarray()
    degree = adjacency.sum(axis=1)
    found = np.eye(graph.num_nodes)
    for u, v in zip(*np.nonzero(adjacency), strict=True):
        found[u, v] -= 1 / np.sqrt(degree[u] * degree[v])
    return found


def lagrange(points: np.ndarray, values: np.ndarray, at: float) -> float:
    """The polynomial through (points, values), at one place."""
    total = 0.0
    for j, value in enumerate(values):
        others = np.delete(points, j)
        total += value * np.prod((at - others) / (points[j] - others))
    return float(total)


def random_filters(order: int = ORDER, seed: int = 0) -> MonotoneFilters:
    filters = MonotoneFilters(order)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        filters.steps.add_(torch.randn(2, order, generator=generator))
    return filters


def spectral(filters: MonotoneFilters, rows: np.ndarray) -> list[np.ndarray]:
    """U g(lambda) U^T rows for the low and the high filter."""
    frequencies, vectors = np.linalg.eigh(dense_laplacian(GRAPH))
    points = np.array([-np.cos((j + 0.5) * np.pi / (filters.order + 1)) for j in range(99)])
    points = points[: filters.order + 1]
    found = []
    for values in filters.values().detach().double().numpy():
        response = [lagrange(points, values, frequency - 1) for frequency in frequencies]
        found.append(vectors @ np.diag(response) @ vectors.T @ rows)
    return found


def test_the_laplacian_is_its_formula_less_the_identity() -> None:
    expected = dense_laplacian(GRAPH) - np.eye(GRAPH.num_nodes)
    np.testing.assert_allclose(LAPLACIAN.to_dense().numpy(), expected, atol=1e-6)
    assert not expected[0].any()


def test_points_are_the_zeros_of_the_next_polynomial() -> None:
    points = chebyshev_points(ORDER).numpy()
    assert (np.diff(points) > 0).all()
    next_one = np.polynomial.chebyshev.Chebyshev.basis(ORDER + 1)
    np.testing.assert_allclose(np.sort(next_one.roots().real), points, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 10])
def test_interpolation_meets_the_values(order: int) -> None:
    values = np.random.default_rng(order).normal(size=order + 1)
    coefficients = interpolation(order).double().numpy() @ values
    points = chebyshev_points(order).numpy()
    found = np.polynomial.chebyshev.chebval(points, coefficients)
    np.testing.assert_allclose(found, values, atol=1e-5)


@pytest.mark.parametrize("order", [1, 2, ORDER, 10])
def test_filters_are_those_of_the_eigendecomposition(order: int) -> None:
    rows = np.random.default_rng(1).normal(size=(30, 5))
    filters = random_filters(order)
    found = filters(torch.from_numpy(rows).float(), LAPLACIAN)
    for part, expected in zip(found, spectral(filters, rows), strict=True):
        np.testing.assert_allclose(part.detach().numpy(), expected, atol=2e-5)


@pytest.mark.parametrize("learned", [True, False])
def test_gradients_are_those_of_small_differences(learned: bool) -> None:
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(30, 5, generator=generator, dtype=torch.float64, requires_grad=learned)
    coefficients = torch.randn(2, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    laplacian = LAPLACIAN.to(torch.float64)
    assert torch.autograd.gradcheck(
        lambda *inputs: Filtered.apply(*inputs, laplacian),  # type: ignore[no-untyped-call]
        (rows, coefficients),
    )


def test_column_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, target = torch.randn(2, 30, 7, generator=torch.Generator().manual_seed(3))
    filters = random_filters()
    found = []
    for block in (3, 7):
        monkeypatch.setattr(chebyshev, "COLUMNS_PER_FILTER", block)
        seen = rows.clone().requires_grad_()
        low, high = filters(seen, LAPLACIAN)
        torch.autograd.backward((low * target - high).square().sum())
        assert seen.grad is not None
        found.append((low, high, seen.grad))
    for part, expected in zip(*found, strict=True):
        torch.testing.assert_close(part, expected)


def test_filters_begin_with_equal_steps_between_0_and_2() -> None:
    low, high = MonotoneFilters(4).values().tolist()
    assert low == pytest.approx([2.0, 1.5, 1.0, 0.5, 0.0])
    assert high == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0])


def test_one_filter_never_rises_and_the_other_never_falls() -> None:
    filters = random_filters(seed=3)
    assert (filters.steps < 0).any()
    low, high = filters.values().detach().numpy()
    assert (np.diff(low) <= 0).all()
    assert (np.diff(high) >= 0).all()
    assert low[0] == 2.0
    assert high[0] == 0.0


def test_a_constant_signal_is_of_low_frequency() -> None:
    degree = torch.from_numpy(np.asarray(GRAPH.adjacency.sum(axis=1)).ravel())
    rows = degree.sqrt().float()[:, None]
    low, high = (part.detach().norm() for part in MonotoneFilters(10)(rows, LAPLACIAN))
    assert high < 0.1 * low


def test_an_order_of_0_is_refused() -> None:
    with pytest.raises(UsageError, match="order=0 must be at least 1"):
        MonotoneFilters(0)
