"""Encoders by name, and a module of the user's own."""

from __future__ import annotations

import pytest
import torch
from strategies import make_graph
from torch import Tensor, nn

from xtcl.errors import UsageError
from xtcl.nn import ENCODERS, encoder_factory
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder


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
