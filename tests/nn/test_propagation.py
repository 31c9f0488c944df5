"""Smoothing over the links against dense matrices."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from dense_layers import PATH, dense_hat, dense_smoothing, links_of, normal, unit
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs, make_graph
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.nn.encoder import SmoothedAttributes
from xtcl.nn.propagation import Propagation

restarts = st.sampled_from((0.0, 0.2, 0.9))


def agrees(found: Tensor, expected: np.ndarray, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=tolerance, rtol=tolerance)


@given(graph=graphs(), hops=st.integers(0, 4), restart=restarts, seed=st.integers(0, 99))
def test_is_the_sum_over_walks(graph: Graph, hops: int, restart: float, seed: int) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 3, seed=seed)
    expected = dense_smoothing(x.numpy(), edge_index, hops, restart)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        smoothed = Propagation(hops, restart)(x.to(dtype), edge_index)
        assert smoothed.dtype == dtype
        agrees(smoothed, expected, tolerance)


@given(graph=graphs(), restart=st.sampled_from((0.1, 0.5)))
def test_many_steps_come_to_personalised_pagerank(graph: Graph, restart: float) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 2)
    hat = dense_hat(edge_index, graph.num_nodes)
    limit = restart * np.linalg.inv(np.eye(len(hat)) - (1 - restart) * hat) @ x.numpy()
    agrees(Propagation(300, restart)(x, edge_index), limit, 1e-8)


def test_smoothing_by_hand() -> None:
    x = torch.tensor([[6.0], [0.0], [0.0]], dtype=torch.float64)
    once = Propagation(1)(x, torch.tensor(PATH))  # degrees with loops: 2, 3, 2
    agrees(once, np.array([[3.0], [6 / 6**0.5], [0.0]]))
    agrees(Propagation(1, 0.5)(x, torch.tensor(PATH)), np.array([[4.5], [3 / 6**0.5], [0.0]]))


@pytest.mark.parametrize("restart", [0.0, 0.3])
def test_without_links_nothing_moves(restart: float) -> None:
    x = normal(4, 2, dtype=torch.float32)
    torch.testing.assert_close(Propagation(3, restart)(x, torch.empty(2, 0, dtype=torch.int64)), x)


@pytest.mark.parametrize("restart", [0.0, 0.3])
@pytest.mark.parametrize("shape", ["star", "isolated", "empty", "cliques"])
def test_gradient_is_the_dense_one(shape: str, restart: float) -> None:
    edge_index = links_of(make_graph(7, 1, shape))
    propagation, upstream = Propagation(2, restart), normal(7, 3, seed=1)
    x = normal(7, 3).requires_grad_()
    (gradient,) = torch.autograd.grad((propagation(x, edge_index) * upstream).sum(), x)
    as_matrix = dense_smoothing(np.eye(7), edge_index, 2, restart)
    agrees(gradient, as_matrix.T @ upstream.numpy())
    assert torch.autograd.gradcheck(lambda x: propagation(x, edge_index), (x,))


def test_the_same_links_with_more_nodes_or_another_precision() -> None:
    propagation, links = Propagation(1), torch.tensor(PATH)
    for count, dtype in ((3, torch.float32), (5, torch.float32), (5, torch.float64)):
        x = normal(count, 2, dtype=dtype)
        agrees(propagation(x, links), dense_hat(links, count) @ x.double().numpy(), 1e-6)


@given(graph=graphs(), hops=st.integers(0, 3), restart=restarts, seed=st.integers(0, 99))
def test_smoothed_attributes_have_unit_length(
    graph: Graph, hops: int, restart: float, seed: int
) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 3, seed=seed)
    x[0] = 0.0
    expected = unit(dense_smoothing(x.numpy(), edge_index, hops, restart))
    agrees(SmoothedAttributes(hops, restart)(x, edge_index), expected)


@pytest.mark.parametrize("kind", [Propagation, SmoothedAttributes])
@pytest.mark.parametrize(
    ("hops", "restart", "message"),
    [
        (-1, 0.0, r"^hops=-1 must be at least 0\.$"),
        (1, -0.1, r"^restart=-0\.1 must be in \[0, 1\)\.$"),
        (1, 1.0, r"^restart=1\.0 must be in \[0, 1\)\.$"),
        (1, float("nan"), r"^restart=nan must be in \[0, 1\)\.$"),
    ],
)
def test_impossible_options(
    kind: type[Propagation | SmoothedAttributes], hops: int, restart: float, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        kind(hops, restart)


@pytest.mark.parametrize("kind", [Propagation, SmoothedAttributes])
def test_nothing_to_learn(kind: type[Propagation | SmoothedAttributes]) -> None:
    assert not kind(2, 0.2).state_dict()


def test_neither_the_order_of_links_nor_loops_among_them_matter() -> None:
    rng = np.random.default_rng(3)
    dense = np.triu(rng.random((9, 9)) < 0.3, 1)
    edge_index = torch.from_numpy(np.array(np.nonzero(dense | dense.T)))
    x, loops = normal(9, 4), torch.arange(3).expand(2, -1)
    mixed = torch.cat([edge_index, loops], dim=1)
    mixed = mixed[:, torch.from_numpy(rng.permutation(mixed.shape[1]))]
    torch.testing.assert_close(Propagation(2)(x, mixed), Propagation(2)(x, edge_index))


def test_two_of_them_can_share_a_matrix() -> None:
    x, links = normal(3, 4), torch.tensor(PATH)
    first = Propagation(2)
    second = Propagation(1, like=first)
    torch.testing.assert_close(second(x, links), Propagation(1)(x, links))
    torch.testing.assert_close(first(x, links), second(second(x, links), links))
    assert copy.deepcopy(second)._matrix is not first._matrix
