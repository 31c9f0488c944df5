"""The attention encoder against attention by hand and PyG's own layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from dense_layers import PATH, dense_smoothing, links_of, normal, unit
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GATConv

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.nn.gat import GATEncoder


def smoothed_rows(x: Tensor, edge_index: Tensor, hops: int) -> Tensor:
    return torch.from_numpy(unit(dense_smoothing(x.numpy(), edge_index, hops)))


def conv_of(encoder: GATEncoder, layer: int, in_features: int) -> GATConv:
    """PyG's layer with the weights of one of the encoder's."""
    conv = GATConv(in_features, 2, heads=2).double()
    start = f"convs.{layer}."
    state = encoder.state_dict().items()
    conv.load_state_dict({k.removeprefix(start): v for k, v in state if k.startswith(start)})
    return conv


def test_attention_of_one_head_by_hand() -> None:
    encoder = GATEncoder(2, 2, heads=1, dropout=0.0)
    known = dict(encoder.named_parameters())
    x = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [3.0, 1.0]])
    z = encoder(x, torch.tensor([[0, 1], [1, 0]]))
    h = x / x.norm(dim=1, keepdim=True) @ known["convs.0.lin.weight"].T
    to, source = (h @ known[f"convs.0.att_{end}"].flatten() for end in ("dst", "src"))
    for u, around in ((0, [0, 1]), (1, [0, 1]), (2, [2])):
        score = F.leaky_relu(to[u] + source[around], 0.2)
        torch.testing.assert_close(z[u], score.softmax(0) @ h[around] + known["convs.0.bias"])


@given(graph=graphs(), hops=st.integers(0, 3), seed=st.integers(0, 99))
def test_one_layer_is_the_layer_on_the_smoothed_rows(graph: Graph, hops: int, seed: int) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 3, seed=seed)
    encoder = GATEncoder(3, 4, hops=hops, heads=2).double().eval()
    expected = conv_of(encoder, 0, 3)(smoothed_rows(x, edge_index, hops), edge_index)
    torch.testing.assert_close(encoder(x, edge_index), expected, atol=1e-8, rtol=1e-8)


@given(graph=graphs(), seed=st.integers(0, 99))
def test_further_layers_do_not_smooth_again(graph: Graph, seed: int) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 3, seed=seed)
    encoder = GATEncoder(3, 4, layers=2, hops=2, heads=2).double().eval()
    h = conv_of(encoder, 0, 3)(smoothed_rows(x, edge_index, 2), edge_index)
    expected = conv_of(encoder, 1, 4)(F.elu(h), edge_index)
    torch.testing.assert_close(encoder(x, edge_index), expected, atol=1e-8, rtol=1e-8)


def test_the_length_of_the_attributes_does_not_matter() -> None:
    encoder, x, links = GATEncoder(3, 8).double().eval(), normal(3, 3), torch.tensor(PATH)
    longer = x * torch.tensor([[2.0], [0.1], [9.0]])
    torch.testing.assert_close(encoder(longer, links), encoder(x, links))
    assert np.isfinite(encoder(torch.zeros_like(x), links).detach().numpy()).all()


@pytest.mark.parametrize(("width", "heads"), [(10, 4), (3, 8), (512, 7)])
def test_width_that_the_heads_cannot_share(width: int, heads: int) -> None:
    with pytest.raises(UsageError, match=f"width={width} cannot be shared out among heads={heads}"):
        GATEncoder(3, width, heads=heads)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 0}, r"^layers=1 and heads=0 must be at least 1\.$"),
        ({"layers": 0}, r"^layers=0 and heads=8 must be at least 1\.$"),
        ({"hops": -2}, r"^hops=-2 must be at least 0\.$"),
    ],
)
def test_impossible_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        GATEncoder(3, 8, **options)
