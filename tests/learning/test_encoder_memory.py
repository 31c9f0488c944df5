"""What encoders keep of a graph between passes, and when they let go of it."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable

import pytest
import torch
from dense_layers import PATH, normal
from torch import Tensor, nn

from xtcl.nn.encoder import SmoothedAttributes
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.nn.functional import TensorCache, clear_tensor_caches
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.propagation import Propagation

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
