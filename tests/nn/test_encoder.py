"""Inputs, names and memory of encoders."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense_layers import PATH, normal
from hypothesis import given
from strategies import graphs, make_graph
from torch import Tensor, nn

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.nn import ENCODERS, encoder_factory
from xtcl.nn.encoder import RANDOM_FEATURES, SmoothedAttributes, encoder_inputs
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.nn.functional import TensorCache, clear_tensor_caches
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.propagation import Propagation

CPU = torch.device("cpu")


WITH_ATTRIBUTES = ("zeros", "counts", "signed", "some zero rows")


def attributes_seen(graph: Graph) -> Tensor:
    return encoder_inputs(graph, CPU)[0]


@given(graph=graphs(attributes=WITH_ATTRIBUTES))
def test_rows_of_unit_length(graph: Graph) -> None:
    given_rows = np.asarray(graph.attributes, dtype=np.float64)
    for row, seen in zip(given_rows, attributes_seen(graph).numpy(), strict=True):
        length = np.sqrt((row**2).sum())
        np.testing.assert_allclose(seen, row / length if length > 0 else row, atol=1e-6)


@given(graph=graphs())
def test_links_in_both_directions(graph: Graph) -> None:
    _, edge_index = encoder_inputs(graph, CPU)
    pairs = [tuple(pair) for pair in edge_index.T.tolist()]
    once = [tuple(pair) for pair in graph.edges.T.tolist()]
    assert sorted(pairs) == sorted(once + [(v, u) for u, v in once])
    assert edge_index.dtype == torch.int64


@given(graph=graphs(attributes=WITH_ATTRIBUTES))
def test_sparse_and_dense_agree(graph: Graph) -> None:
    sparse = Graph.from_arrays(
        attributes=sp.csr_array(np.asarray(graph.attributes)), edges=graph.edges
    )
    assert sp.issparse(sparse.attributes)
    assert torch.equal(attributes_seen(sparse), attributes_seen(graph))


def test_without_attributes_the_features_are_random_but_fixed() -> None:
    graph = make_graph(200, 0, "random", "none")
    torch.manual_seed(1)
    first = attributes_seen(graph)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    again = attributes_seen(graph)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    assert first.shape == (200, RANDOM_FEATURES)
    torch.testing.assert_close(first.norm(dim=1), torch.ones(200))
    # Rows of different nodes are as good as orthogonal: 6 standard deviations of 1 / sqrt(256).
    assert (first @ first.T - torch.eye(200)).abs().max() < 6 / 16


@pytest.mark.parametrize("attributes", ["counts", "none"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_graph_cannot_be_changed_through_what_is_seen(attributes: str, sparse: bool) -> None:
    graph = make_graph(12, 0, "random", attributes)
    if sparse and graph.has_attributes:
        graph = Graph.from_arrays(
            attributes=sp.csr_array(np.asarray(graph.attributes)), edges=graph.edges
        )
    before = graph.fingerprint()
    x, edge_index = encoder_inputs(graph, CPU)
    x.fill_(7.0)
    edge_index.fill_(0)
    copy = Graph(attributes=graph.attributes, edges=graph.edges)
    assert copy.fingerprint() == before
    assert not (graph.edge_index == 0).all()


# Encoders by name, and a module of the user's own.


class Own(nn.Module):
    """A linear map that does not look at the links."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        output: Tensor = self.linear(x)
        return output


def parameters(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


@pytest.mark.parametrize("name", sorted(ENCODERS))
@pytest.mark.parametrize("shape", ["random", "empty", "isolated"])
@pytest.mark.parametrize("layers", [1, 2])
def test_shape_and_gradient(name: str, shape: str, layers: int) -> None:
    x, edge_index = encoder_inputs(make_graph(9, 0, shape), torch.device("cpu"))
    encoder = encoder_factory(name, x.shape[1], {"width": 24, "layers": layers})()
    z = encoder(x, edge_index)
    assert z.shape == (9, 24)
    assert z.isfinite().all()
    z.square().sum().backward()
    assert all(
        parameter.grad is not None and parameter.grad.isfinite().all()
        for parameter in encoder.parameters()
    )


def test_known_names() -> None:
    assert isinstance(encoder_factory("gcn", 3, {"width": 4})(), GCNEncoder)
    assert isinstance(encoder_factory("gat", 3, {"width": 8})(), GATEncoder)


def test_unknown_name() -> None:
    with pytest.raises(UsageError, match=r"no encoder 'sage'\. Known: gcn, gat; or give an nn.Mod"):
        encoder_factory("sage", 3, {})


def test_every_call_makes_a_new_encoder() -> None:
    make = encoder_factory("gcn", 3, {"width": 4})
    torch.manual_seed(0)
    first, second = make(), make()
    assert not torch.equal(next(first.parameters()), next(second.parameters()))


def test_own_module_is_copied() -> None:
    own = Own()
    before = parameters(own)
    make = encoder_factory(own, 3, {})
    first = make()
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(1.0)
    for module in (own, make()):
        torch.testing.assert_close(parameters(module), before)
    assert isinstance(first, Own)


def test_an_encoder_that_was_used_before_can_be_given() -> None:
    own, links = GCNEncoder(3, 4, layers=2).eval(), torch.tensor([[0, 1], [1, 0]])
    x = torch.ones(3, 3)
    expected = own(x, links)
    assert torch.equal(encoder_factory(own, 3, {})()(x, links), expected)


# What encoders keep of a graph between passes, and when they let go of it.

LEARNING: dict[str, Callable[[], nn.Module]] = {
    "gcn": lambda: GCNEncoder(3, 4),
    "two layers": lambda: GCNEncoder(3, 4, layers=2, hops=1, batch_norm=True),
    "gat": lambda: GATEncoder(3, 8, hops=1),
    "joined": lambda: EncoderEnsemble([GCNEncoder(3, 4), GATEncoder(3, 8)], [1.0, 0.5], 0.7),
}


ALL = LEARNING | {
    "propagation": lambda: Propagation(2),
    "smoothed": lambda: SmoothedAttributes(2, 0.2),
}


every_module = pytest.mark.parametrize("name", ALL)


def rows(count: int = 3, seed: int = 0) -> Tensor:
    return normal(count, 3, seed=seed, dtype=torch.float32)


def fresh(module: nn.Module, x: Tensor, edge_index: Tensor) -> Tensor:
    """What a module that has seen nothing yet says."""
    output: Tensor = copy.deepcopy(module)(x.clone(), edge_index.clone())
    return output


@every_module
def test_nothing_stale_is_returned(name: str) -> None:
    module, x, other_x = ALL[name]().eval(), rows(), rows(seed=1)
    links, other_links = torch.tensor(PATH), torch.tensor([[0, 2], [2, 0]])
    none = torch.empty(2, 0, dtype=torch.int64)
    inputs = [(x, links), (other_x, links), (other_x, other_links), (x, other_links), (x, none)]
    for seen in (*inputs, *inputs):
        assert torch.equal(module(*seen), fresh(module, *seen))


@every_module
def test_writes_in_place_are_seen(name: str) -> None:
    module, x, links = ALL[name]().eval(), rows(), torch.tensor(PATH)
    before = module(x, links).clone()
    x[0] = 5.0
    assert torch.equal(module(x, links), fresh(module, x, links))
    links.copy_(torch.tensor([[0, 2, 2, 1], [2, 0, 1, 2]]))
    assert torch.equal(module(x, links), fresh(module, x, links))
    assert not torch.equal(module(x, links), before)


@every_module
@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))],  # noqa: S301
)
def test_a_used_module_can_be_copied(name: str, copied: Callable[[nn.Module], nn.Module]) -> None:
    module, x, links = ALL[name]().eval(), rows(), torch.tensor(PATH)
    expected = module(x, links)
    assert torch.equal(copied(module)(x, links), expected)


@every_module
def test_a_pickle_holds_no_data(name: str) -> None:
    module, links = ALL[name]().eval(), torch.tensor(PATH)
    unused = len(pickle.dumps(module))
    module(rows(5000), links)
    assert len(pickle.dumps(module)) == unused


@pytest.mark.parametrize("name", LEARNING)
def test_training_after_inference_mode(name: str) -> None:
    module, x, links = LEARNING[name](), rows(), torch.tensor(PATH)
    with torch.inference_mode():
        module.eval()(x, links)
    module.train()(x, links).sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_computed_once() -> None:
    calls: list[int] = []

    def compute() -> Tensor:
        calls.append(1)
        return torch.zeros(1)

    kept: TensorCache[Tensor] = TensorCache()
    a, b = torch.zeros(2), torch.zeros(2)
    for tensors, other in (((a, b), 1), ((a, b), 1), ((b, a), 1), ((b, a), 2), ((b,), 2)):
        kept.get(compute, tensors, other)
    assert len(calls) == 4  # all but the second
    kept.clear()
    kept.get(compute, (b,), 2)
    assert len(calls) == 5


def test_two_results_are_never_there_at_once() -> None:
    kept: TensorCache[Tensor] = TensorCache()
    alive: list[weakref.ref[Tensor]] = []
    for key in (torch.zeros(1), torch.zeros(1)):

        def compute() -> Tensor:
            assert all(earlier() is None for earlier in alive)
            return torch.zeros(3)

        alive.append(weakref.ref(kept.get(compute, (key,))))
    assert alive[1]() is not None


def test_a_failure_leaves_nothing_behind() -> None:
    kept: TensorCache[Tensor] = TensorCache()
    key = torch.zeros(1)

    def fail() -> Tensor:
        raise KeyboardInterrupt

    kept.get(lambda: torch.zeros(1), (key,), "before")
    with pytest.raises(KeyboardInterrupt):
        kept.get(fail, (key,), "after")
    assert kept.get(lambda: torch.ones(1), (key,), "after").item() == 1


@pytest.mark.slow
@every_module
def test_a_module_told_to_forget_lets_go_of_the_data(name: str) -> None:
    module, x, links = ALL[name]().eval(), rows(), torch.tensor(PATH)
    expected = module(x, links).detach().clone()
    clear_tensor_caches(module)
    assert torch.equal(module(x, links), expected)
    clear_tensor_caches(module)
    gone = [weakref.ref(x), weakref.ref(links)]
    del x, links
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
