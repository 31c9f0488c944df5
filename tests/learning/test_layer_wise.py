"""Embedding layer by layer: the full pass, whatever the size of a block."""

from __future__ import annotations

import pytest
import torch
from neighbourhoods import ENCODERS, Two, hubs, joined, made
from torch import Tensor
from torch_geometric.nn import SAGEConv

from xtcl.nn.encoder import LayerwiseEncoder
from xtcl.nn.propagation import Block
from xtcl.training.neighbor_sampling import layer_wise


@pytest.mark.parametrize("block", [1, 7, 50, 10**6])
@pytest.mark.parametrize("name", [*ENCODERS, "joined"])
def test_is_the_full_pass(name: str, block: int) -> None:
    (x, links), encoder = hubs(), (joined() if name == "joined" else made(name)).eval()
    with torch.no_grad():
        torch.testing.assert_close(layer_wise(encoder, x, links, block), encoder(x, links))


@pytest.mark.parametrize("name", ["two layers", "gat", "own sage"])
def test_without_links(name: str) -> None:
    (x, _), encoder = hubs(), made(name).eval()
    none = torch.empty(2, 0, dtype=torch.int64)
    with torch.no_grad():
        torch.testing.assert_close(layer_wise(encoder, x, none, 9), encoder(x, none))


@pytest.mark.parametrize("name", ["three layers", "two gat"])
def test_every_row_of_a_layer_is_computed_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (x, links), encoder = hubs(), made(name).eval()
    assert isinstance(encoder, LayerwiseEncoder)
    made_rows: list[tuple[int, int]] = []
    layer = type(encoder).layer

    def spy(self: LayerwiseEncoder, number: int, h: Tensor, links: Block) -> Tensor:
        rows = layer(self, number, h, links)
        made_rows.append((number, len(rows)))
        return rows

    monkeypatch.setattr(type(encoder), "layer", spy)
    with torch.no_grad():
        layer_wise(encoder, x, links, 20)
    for number in range(len(encoder.uses_neighbours)):
        sizes = [rows for at, rows in made_rows if at == number]
        assert sum(sizes) == 40
        assert len(sizes) > 4


def test_a_module_without_num_hops_sees_the_whole_graph() -> None:
    (x, links), encoder = hubs(), Two(SAGEConv, None).double()
    with torch.no_grad():
        layer_wise(encoder, x, links, 10)
    assert encoder.shown == [40]
    encoder.num_hops = 2
    with torch.no_grad():
        layer_wise(encoder, x, links, 10)
    assert max(encoder.shown[1:]) < 40


def test_the_former_name_of_num_hops_works_and_warns() -> None:
    (x, links), encoder = hubs(), Two(SAGEConv, None).double()
    encoder.__dict__["reach"] = 2
    with torch.no_grad(), pytest.warns(DeprecationWarning, match="num_hops"):
        layer_wise(encoder, x, links, 10)
    assert max(encoder.shown) < 40
