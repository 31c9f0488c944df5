"""Smoothing over the links against dense matrices, and what is kept of it between passes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs, make_graph
from torch import Tensor, nn

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.learning.encoders.gcn import GCNEncoder
from xtcl.learning.encoders.propagation import Propagation
from xtcl.learning.encoders.remembered import Remembered

PATH = [[0, 1, 1, 2], [1, 0, 2, 1]]
"""0 - 1 - 2, in both directions."""


def links_of(graph: Graph) -> Tensor:
    return torch.from_numpy(np.array(graph.edge_index))


def dense_hat(edge_index: Tensor, count: int) -> Tensor:
    """D^{-1/2} (A + I) D^{-1/2}, entry by entry."""
    linked = set(map(tuple, edge_index.T.tolist())) | {(u, u) for u in range(count)}
    degree = [sum((u, v) in linked for v in range(count)) for u in range(count)]
    matrix = torch.zeros(count, count, dtype=torch.float64)
    for u, v in linked:
        matrix[u, v] = (degree[u] * degree[v]) ** -0.5
    return matrix


def unit(rows: Tensor) -> Tensor:
    lengths = [sum(value**2 for value in row) ** 0.5 or 1.0 for row in rows.tolist()]
    return rows / torch.tensor(lengths, dtype=rows.dtype)[:, None]


def normal(*size: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@given(graph=graphs(), hops=st.integers(0, 3), seed=st.integers(0, 99))
def test_is_the_dense_power(graph: Graph, hops: int, seed: int) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 3, seed=seed)
    expected = torch.linalg.matrix_power(dense_hat(edge_index, graph.num_nodes), hops) @ x
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        smoothed = Propagation(hops)(x.to(dtype), edge_index)
        assert smoothed.dtype == dtype
        torch.testing.assert_close(smoothed.double(), expected, atol=tolerance, rtol=tolerance)


def test_without_links_nothing_moves() -> None:
    x = normal(4, 2, dtype=torch.float32)
    assert torch.equal(Propagation(3)(x, torch.empty(2, 0, dtype=torch.int64)), x)


@pytest.mark.parametrize("shape", ["star", "isolated", "empty", "cliques"])
def test_gradient_is_the_dense_one(shape: str) -> None:
    edge_index = links_of(make_graph(7, 1, shape))
    propagation, upstream = Propagation(2), normal(7, 3, seed=1)
    x = normal(7, 3).requires_grad_()
    (gradient,) = torch.autograd.grad((propagation(x, edge_index) * upstream).sum(), x)
    hat = dense_hat(edge_index, 7)
    torch.testing.assert_close(gradient, (hat @ hat).T @ upstream)
    assert torch.autograd.gradcheck(lambda x: propagation(x, edge_index), (x,))


@given(graph=graphs(), hops=st.integers(0, 2), seed=st.integers(0, 99))
def test_one_layer_is_linear_in_the_smoothed_rows(graph: Graph, hops: int, seed: int) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 3, seed=seed)
    encoder = GCNEncoder(3, 4, hops=hops).double().eval()
    hat = torch.linalg.matrix_power(dense_hat(edge_index, graph.num_nodes), hops)
    weight = dict(encoder.named_parameters())["linears.0.weight"]
    assert len(list(encoder.parameters())) == 1
    torch.testing.assert_close(encoder(x, edge_index), unit(hat @ x) @ weight.T, atol=1e-6, rtol=0)


@given(graph=graphs(), hops=st.integers(0, 2), seed=st.integers(0, 99))
def test_further_layers(graph: Graph, hops: int, seed: int) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 3, seed=seed)
    encoder = GCNEncoder(3, 4, layers=3, hops=hops).double().eval()
    with torch.no_grad():
        for at, parameter in enumerate(encoder.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=seed + at))
    known = dict(encoder.named_parameters())
    hat = torch.linalg.matrix_power(dense_hat(edge_index, graph.num_nodes), hops)
    h = unit(hat @ x) @ known["linears.0.weight"].T
    for layer in (1, 2):
        slope = known[f"activations.{layer - 1}.weight"]
        h = hat @ torch.where(h > 0, h, slope * h) @ known[f"linears.{layer}.weight"].T
        h = h + known[f"linears.{layer}.bias"]
    torch.testing.assert_close(encoder(x, edge_index), h, atol=1e-5, rtol=1e-5)


def test_training_drops_and_evaluation_does_not() -> None:
    encoder, x, links = GCNEncoder(3, 4), normal(3, 3, dtype=torch.float32), torch.tensor(PATH)
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
    hat, upstream = dense_hat(links, 3), normal(3, 4, seed=3)
    smoothed = hat @ hat @ x
    dense = smoothed / smoothed.square().sum(dim=1, keepdim=True).sqrt() @ weight.T
    (expected,) = torch.autograd.grad((dense * upstream).sum(), x)
    for _ in range(2):  # nothing of a pass is left for the next
        (gradient,) = torch.autograd.grad((encoder(x, links) * upstream).sum(), x)
        torch.testing.assert_close(gradient, expected)


def encoders() -> list[Callable[[], nn.Module]]:
    return [
        lambda: Propagation(2),
        lambda: GCNEncoder(3, 4).eval(),
        lambda: GCNEncoder(3, 4, layers=2, hops=1).eval(),
    ]


def fresh(module: nn.Module, x: Tensor, edge_index: Tensor) -> Tensor:
    """What a module that has seen nothing yet says."""
    output: Tensor = copy.deepcopy(module)(x.clone(), edge_index.clone())
    return output


@pytest.mark.parametrize("make", encoders())
def test_nothing_stale_is_returned(make: Callable[[], nn.Module]) -> None:
    module = make()
    x, other_x = (normal(3, 3, seed=seed, dtype=torch.float32) for seed in (0, 1))
    links, other_links = torch.tensor(PATH), torch.tensor([[0, 2], [2, 0]])
    none = torch.empty(2, 0, dtype=torch.int64)
    inputs = [(x, links), (other_x, links), (other_x, other_links), (x, other_links), (x, none)]
    for seen in (*inputs, *inputs):
        assert torch.equal(module(*seen), fresh(module, *seen))


@pytest.mark.parametrize("make", encoders())
def test_writes_in_place_are_seen(make: Callable[[], nn.Module]) -> None:
    module, x, links = make(), normal(3, 3, dtype=torch.float32), torch.tensor(PATH)
    before = module(x, links).clone()
    x[0] = 5.0
    assert torch.equal(module(x, links), fresh(module, x, links))
    links.copy_(torch.tensor([[0, 2, 2, 1], [2, 0, 1, 2]]))
    assert torch.equal(module(x, links), fresh(module, x, links))
    assert not torch.equal(module(x, links), before)


def test_the_same_links_with_more_nodes_or_another_precision() -> None:
    propagation, links = Propagation(1), torch.tensor(PATH)
    for count, dtype in ((3, torch.float32), (5, torch.float32), (5, torch.float64)):
        x = normal(count, 2, dtype=dtype)
        torch.testing.assert_close(
            propagation(x, links).double(), dense_hat(links, count) @ x.double()
        )


@pytest.mark.parametrize("make", encoders())
@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))],  # noqa: S301
)
def test_a_used_module_can_be_copied(
    make: Callable[[], nn.Module], copied: Callable[[nn.Module], nn.Module]
) -> None:
    module, x, links = make(), normal(3, 3, dtype=torch.float32), torch.tensor(PATH)
    expected = module(x, links)
    assert torch.equal(copied(module)(x, links), expected)


def test_a_pickle_holds_no_data() -> None:
    encoder, links = GCNEncoder(3, 2), torch.tensor(PATH)
    unused = len(pickle.dumps(encoder))
    encoder(normal(5000, 3, dtype=torch.float32), links)
    assert len(pickle.dumps(encoder)) == unused


@pytest.mark.parametrize("make", encoders()[1:])
def test_training_after_inference_mode(make: Callable[[], nn.Module]) -> None:
    module, x, links = make(), normal(3, 3, dtype=torch.float32), torch.tensor(PATH)
    with torch.inference_mode():
        module(x, links)
    module(x, links).sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_remembered_computes_once() -> None:
    calls: list[int] = []

    def compute() -> Tensor:
        calls.append(1)
        return torch.zeros(1)

    kept, a, b = Remembered(), torch.zeros(2), torch.zeros(2)
    for tensors, other in (((a, b), 1), ((a, b), 1), ((b, a), 1), ((b, a), 2), ((b,), 2)):
        kept.get(compute, tensors, other)
    assert len(calls) == 4  # all but the second


def test_the_smoothed_rows_are_computed_once_per_graph() -> None:
    encoder, x, links = GCNEncoder(3, 4), normal(3, 3, dtype=torch.float32), torch.tensor(PATH)
    calls: list[int] = []
    encoder.propagation.register_forward_hook(lambda *_: calls.append(1))
    for _ in range(3):
        encoder(x, links)
    assert len(calls) == 1


@pytest.mark.parametrize("options", [{"layers": 0}, {"hops": -1}])
def test_impossible_options(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="at least"):
        GCNEncoder(3, 4, **options)
