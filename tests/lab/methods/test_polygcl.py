"""The network and its loss against the eigendecomposition, and what PolyGCL finds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_runs import Recorder

from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import node_split
from xtcl.lab.methods import polygcl as chebyshev
from xtcl.lab.methods.polygcl import (
    PLAIN,
    POLYGCL_SETTINGS,
    Filtered,
    MonotoneFilters,
    PolyGCL,
    PolyGCLSettings,
    SpectralNetwork,
    chebyshev_points,
    interpolation,
    make_optimiser,
    shifted_laplacian,
)
from xtcl.lab.methods.self_supervised import train_until_flat
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import Progress
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.training_data import training_data
from xtcl.training.trainer import seeded

CPU = torch.device("cpu")


SMALL = replace(PLAIN, width=32, learning_rate=1e-2, filter_rate=1e-2, epochs=100, dropout=0.2)


SHORT = PolyGCLSettings(width=8, epochs=10)


GRAPH = block_model(
    200, num_classes=3, num_attributes=30, mean_degree=10, homophily=0.95, attribute_signal=1.5
)


def inputs(graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    x, edge_index = encoder_inputs(graph, CPU)
    return x, shifted_laplacian(edge_index, graph.num_nodes)


def rows_of(graph: Graph, seed: int = 0, settings: PolyGCLSettings = SHORT) -> np.ndarray:
    return PolyGCL(settings).embed(graph, seed=seed, device=CPU, progress=Progress())


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_the_loss_is_its_formula(slope: float, normalised: bool) -> None:
    graph = block_model(12, num_classes=2, num_attributes=5, mean_degree=3)
    x, laplacian = inputs(graph)
    network = SpectralNetwork(
        5, PolyGCLSettings(width=4, order=3, dropout=0.0, slope=slope, normalised=normalised)
    )
    with torch.no_grad():
        network.filters.steps.add_(torch.tensor([[0.2, -0.9, 0.1], [0.3, 0.1, -0.2]]))
        network.mixture.add_(torch.tensor([0.2, -0.1]))
        for parameter in (network.bias, network.discriminator.bias):
            parameter.add_(0.1)
    found = network.loss(x, laplacian, torch.Generator().manual_seed(7)).item()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(7)).tolist()

    frequencies, vectors = np.linalg.eigh(laplacian.to_dense().double().numpy())
    points = [-math.cos((j + 0.5) * math.pi / 4) for j in range(4)]
    weight, bias, bilinear, offset = (
        parameter.detach().double().numpy()
        for parameter in (
            network.weight,
            network.bias,
            network.discriminator.weight,
            network.discriminator.bias,
        )
    )

    def view(attributes: np.ndarray, steps: list[float], falling: bool) -> np.ndarray:
        values = [2.0 if falling else 0.0]
        for step in steps:
            values.append(values[-1] + max(step, 0.0) * (-1 if falling else 1))
        response = np.polyval(np.polyfit(points, values, 3), frequencies)
        filtered = vectors @ np.diag(response) @ vectors.T @ attributes
        if normalised:
            spread = np.sqrt(filtered.var(axis=0) + 1e-5)
            filtered = (filtered - filtered.mean(axis=0)) / spread
        rows = filtered @ weight + bias
        return np.asarray(np.where(rows > 0, rows, slope * rows))

    known = x.double().numpy()
    low_steps, high_steps = network.filters.steps.tolist()
    real, fake = (
        (view(attributes, low_steps, True), view(attributes, high_steps, False))
        for attributes in (known, known[order])
    )
    alpha, beta = network.mixture.tolist()
    mixed = alpha * real[0] + beta * real[1]
    summary = np.maximum(mixed.mean(axis=0), 0.0)
    total = 0.0
    for views, sign in ((real, 1), (fake, -1)):
        for rows in views:
            for row in rows:
                score = row @ bilinear @ summary + offset
                total += math.log1p(math.exp(-sign * score))
    assert found == pytest.approx(total / 48, rel=1e-4)
    np.testing.assert_allclose(network(x, laplacian).detach().numpy(), mixed, atol=1e-5)


@pytest.mark.parametrize("normalised", [False, True])
def test_sparse_attributes_are_the_same_attributes(normalised: bool) -> None:
    x, laplacian = inputs(GRAPH)
    network = SpectralNetwork(30, PolyGCLSettings(width=8, dropout=0.0, normalised=normalised))
    gradients = []
    for given in (x, x.to_sparse_csr()):
        network.zero_grad()
        torch.autograd.backward(network.loss(given, laplacian, torch.Generator().manual_seed(0)))
        assert network.weight.grad is not None
        gradients.append(network.weight.grad.clone())
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-7)


def test_training_learns_to_tell_the_graph_from_shuffled_ones() -> None:
    x, laplacian = inputs(GRAPH)
    with seeded(0, CPU) as generator:
        network = SpectralNetwork(30, SMALL)
        losses = train_until_flat(
            network,
            torch.optim.Adam(network.parameters(), lr=1e-2),
            lambda: network.loss(x, laplacian, generator),
            epochs=100,
            patience=20,
        )
    assert losses[0] > 0.6  # a guess has 0.69
    assert min(losses) < 0.4


def test_settings_go_by_the_name_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    assert POLYGCL_SETTINGS.keys() == {"cora", "citeseer", "pubmed", "photo", "computers"}
    assert [name for name, settings in POLYGCL_SETTINGS.items() if settings.normalised] == [
        "pubmed"
    ]
    patience = {name: settings.patience for name, settings in POLYGCL_SETTINGS.items()}
    assert patience.pop("pubmed") == PolyGCLSettings().patience
    assert set(patience.values()) == {20}
    monkeypatch.setitem(POLYGCL_SETTINGS, "mine", PolyGCLSettings(width=6, epochs=1))
    named = Graph.from_arrays(GRAPH.attributes, GRAPH.edges, name="mine")
    found = PolyGCL().embed(named, seed=0, device=CPU, progress=Progress())
    assert found.shape == (200, 6)


@pytest.mark.parametrize(
    ("settings", "still"),
    [
        (PolyGCLSettings(width=8, filter_rate=0.0), "filters"),
        (PolyGCLSettings(width=8, learning_rate=0.0), "others"),
    ],
)
def test_filters_have_a_rate_of_their_own(settings: PolyGCLSettings, still: str) -> None:
    x, laplacian = inputs(GRAPH)
    network = SpectralNetwork(30, settings)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    optimiser = make_optimiser(network, settings)
    torch.autograd.backward(network.loss(x, laplacian, torch.Generator().manual_seed(0)))
    optimiser.step()
    moved = {name for name, value in network.state_dict().items() if not value.equal(before[name])}
    filters = {"filters.steps", "mixture"}
    assert moved == (set(before) - filters if still == "filters" else filters)


def test_each_part_has_its_decay() -> None:
    groups = make_optimiser(
        SpectralNetwork(3, SHORT), PolyGCLSettings(weight_decay=0.1, filter_decay=0.2)
    ).param_groups
    assert [(len(group["params"]), group["weight_decay"]) for group in groups] == [
        (4, 0.1),
        (2, 0.2),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_settings_for_any_graph_find_classes_in_links_from_any_start(seed: int) -> None:
    graph = block_model(
        200, num_classes=3, num_attributes=20, mean_degree=12, homophily=0.95, attribute_signal=0.6
    )
    split = node_split(graph, 0.15, seed=1)
    answer = PolyGCL().fit(
        training_data(graph, split), "nodes", seed=seed, device=CPU, progress=Progress()
    )
    assert score_test_side(answer, graph, split)["accuracy"] > 0.9  # attributes alone: 0.36


def test_classes_that_avoid_each_other_are_found_at_high_frequency() -> None:
    graph = block_model(
        200, num_classes=2, num_attributes=30, mean_degree=10, homophily=0.02, attribute_signal=1.0
    )
    split = node_split(graph, 0.1, seed=3)
    answer = PolyGCL(SMALL).fit(
        training_data(graph, split), "nodes", seed=0, device=CPU, progress=Progress()
    )
    assert score_test_side(answer, graph, split)["accuracy"] > 0.9  # chance: 0.5


def test_every_epoch_is_told() -> None:
    progress = Recorder()
    PolyGCL(SHORT).embed(GRAPH, seed=0, device=CPU, progress=progress)
    assert progress.stages == [("training PolyGCL", 10, [1] * 10)]


# Filters against the eigendecomposition of the Laplacian, interpolation against Lagrange's.

ORDER = 6


def graph_with_a_lonely_node() -> Graph:
    graph = block_model(30, num_classes=3, num_attributes=4, mean_degree=4)
    away = (graph.edges == 0).any(axis=0)
    return graph.with_edges(graph.edges[:, ~away])


GRAPH_CHEBYSHEV = graph_with_a_lonely_node()


LAPLACIAN = shifted_laplacian(
    torch.from_numpy(np.array(GRAPH_CHEBYSHEV.edge_index)), GRAPH_CHEBYSHEV.num_nodes
)


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
    frequencies, vectors = np.linalg.eigh(dense_laplacian(GRAPH_CHEBYSHEV))
    points = np.array([-np.cos((j + 0.5) * np.pi / (filters.order + 1)) for j in range(99)])
    points = points[: filters.order + 1]
    found = []
    for values in filters.values().detach().double().numpy():
        response = [lagrange(points, values, frequency - 1) for frequency in frequencies]
        found.append(vectors @ np.diag(response) @ vectors.T @ rows)
    return found


def test_the_laplacian_is_its_formula_less_the_identity() -> None:
    expected = dense_laplacian(GRAPH_CHEBYSHEV) - np.eye(GRAPH_CHEBYSHEV.num_nodes)
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
    degree = torch.from_numpy(np.asarray(GRAPH_CHEBYSHEV.adjacency.sum(axis=1)).ravel())
    rows = degree.sqrt().float()[:, None]
    low, high = (part.detach().norm() for part in MonotoneFilters(10)(rows, LAPLACIAN))
    assert high < 0.1 * low


def test_an_order_of_0_is_refused() -> None:
    with pytest.raises(UsageError, match="order=0 must be at least 1"):
        MonotoneFilters(0)
