"""The convolutional encoder against dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from dense_layers import PATH, dense_gcn, dense_hat, links_of, normal, randomise
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.nn.gcn import GCNEncoder


def random_gcn(seed: int, **options: Any) -> GCNEncoder:
    encoder = GCNEncoder(3, 4, **options).double()
    randomise(encoder, seed)
    return encoder


def agrees(found: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-8, rtol=1e-8)


@given(
    graph=graphs(),
    layers=st.integers(1, 3),
    hops=st.integers(0, 3),
    restart=st.sampled_from((0.0, 0.2)),
    batch_norm=st.booleans(),
    seed=st.integers(0, 99),
)
def test_is_the_dense_network(
    graph: Graph, layers: int, hops: int, restart: float, batch_norm: bool, seed: int
) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 3, seed=seed)
    options = {"layers": layers, "hops": hops, "restart": restart, "batch_norm": batch_norm}
    encoder = random_gcn(seed, **options).eval()
    state = encoder.state_dict()
    assert any("running_mean" in name for name in state) == (batch_norm and layers > 1)
    agrees(encoder(x, edge_index), dense_gcn(state, x.numpy(), edge_index, hops, restart))


@given(graph=graphs(), batch_norm=st.booleans(), seed=st.integers(0, 99))
def test_training_without_dropout_is_the_same_but_for_the_statistics(
    graph: Graph, batch_norm: bool, seed: int
) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 3, seed=seed)
    encoder = random_gcn(seed, layers=2, hops=1, batch_norm=batch_norm, dropout=0.0)
    expected = dense_gcn(encoder.state_dict(), x.numpy(), edge_index, 1, batch_statistics=True)
    agrees(encoder(x, edge_index), expected)


def test_one_layer_has_one_matrix_to_learn() -> None:
    encoder = GCNEncoder(3, 4, batch_norm=True)  # there is nothing between layers to normalise
    assert [tuple(each.shape) for each in encoder.parameters()] == [(4, 3)]


@pytest.mark.parametrize("layers", [1, 2])
def test_training_drops_and_evaluation_does_not(layers: int) -> None:
    encoder, links = GCNEncoder(3, 4, layers=layers), torch.tensor(PATH)
    x = normal(3, 3, dtype=torch.float32)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        assert not torch.equal(encoder(x, links), encoder(x, links))
    encoder.eval()
    assert torch.equal(encoder(x, links), encoder(x, links))


def test_gradient_for_attributes_that_want_one() -> None:
    links, weight = torch.tensor(PATH), normal(4, 3, seed=2)
    encoder = GCNEncoder(3, 4).double().eval()
    with torch.no_grad():
        next(encoder.parameters()).copy_(weight)
    x = normal(3, 3).requires_grad_()
    encoder(x.detach(), links)
    hat, upstream = torch.from_numpy(dense_hat(links, 3)), normal(3, 4, seed=3)
    smoothed = hat @ hat @ x
    dense = smoothed / smoothed.square().sum(dim=1, keepdim=True).sqrt() @ weight.T
    (expected,) = torch.autograd.grad((dense * upstream).sum(), x)
    for _ in range(2):  # nothing of a pass is left for the next
        (gradient,) = torch.autograd.grad((encoder(x, links) * upstream).sum(), x)
        torch.testing.assert_close(gradient, expected)


def test_the_smoothed_rows_are_computed_once_per_graph() -> None:
    encoder, x, links = GCNEncoder(3, 4), normal(3, 3, dtype=torch.float32), torch.tensor(PATH)
    calls: list[int] = []
    encoder.smoothed_x.propagation.register_forward_hook(lambda *_: calls.append(1))
    for _ in range(3):
        encoder(x, links)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, r"^layers=0 must be at least 1\.$"),
        ({"hops": -1}, r"^hops=-1 must be at least 0\.$"),
        ({"restart": 1.0}, r"^restart=1\.0 must be in \[0, 1\)\.$"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        GCNEncoder(3, 4, **options)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_weights_can_be_carried_over(batch_norm: bool) -> None:
    x, links = normal(3, 3), torch.tensor(PATH)
    first, second = (random_gcn(seed, layers=2, batch_norm=batch_norm).eval() for seed in (0, 9))
    assert not torch.equal(first(x, links), second(x, links))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(x, links), second(x, links))
