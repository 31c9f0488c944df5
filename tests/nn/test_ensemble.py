"""Several encoders as one, against a concatenation by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from dense_layers import PATH, dense_smoothing, links_of, normal, randomise, unit
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs
from torch import Tensor, nn

from xtcl.graph.graph import Graph
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder


def members(count: int, seed: int = 0) -> list[nn.Module]:
    made = [
        GCNEncoder(3, 4, hops=3, restart=0.2),
        GCNEncoder(3, 2, layers=2, hops=1, batch_norm=True),
        GATEncoder(3, 8, hops=1),
    ][:count]
    for at, member in enumerate(made):
        randomise(member.double().eval(), seed + 100 * at)
    return list(made)


def by_hand(
    parts: Sequence[Tensor],
    weights: Sequence[float],
    a: float,
    trust: float,
    x: Tensor,
    edge_index: Tensor,
) -> np.ndarray:
    """Row by row: every part at unit length, times its weight."""
    pieces = [
        ((math.sqrt(trust) if a else 1.0) * w, part.detach().numpy())
        for w, part in zip(weights, parts, strict=True)
    ]
    if a:
        smoothed = [dense_smoothing(x.numpy(), edge_index, hops) for hops in (0, 1, 2)]
        pieces += [(a / math.sqrt(3), rows) for rows in smoothed]
    return np.array(
        [[w * v for w, rows in pieces for v in unit(rows)[u].tolist()] for u in range(len(x))]
    )


@given(
    graph=graphs(),
    weights=st.lists(st.sampled_from((0.3, 1.0, 2.5)), min_size=1, max_size=3),
    attributes=st.sampled_from((0.0, 0.5, 1.0)),
    trust=st.sampled_from((0.125, 1.0)),
    seed=st.integers(0, 99),
)
def test_is_the_concatenation(
    graph: Graph, weights: list[float], attributes: float, trust: float, seed: int
) -> None:
    edge_index, x = links_of(graph), normal(graph.num_nodes, 3, seed=seed)
    x[-1] = 0.0
    encoders = members(len(weights), seed)
    parts = [member(x, edge_index) for member in encoders]
    expected = by_hand(parts, weights, attributes, trust, x, edge_index)
    if len(weights) == 1 and not attributes:
        expected = parts[0].detach().numpy()
    joined = EncoderEnsemble(encoders, weights, attributes, trust).eval()
    for found in (joined(x, edge_index), joined.join(parts, x, edge_index)):
        np.testing.assert_allclose(found.detach().numpy(), expected, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("weight", [1.0, 0.2])
def test_one_member_without_attributes_is_passed_through(weight: float) -> None:
    (member,), x, links = members(1), normal(3, 3), torch.tensor(PATH)
    joined = EncoderEnsemble([member], [weight])
    assert torch.equal(joined(x, links), member(x, links))
    part = normal(3, 5)
    assert joined.join([part], x, links) is part


def test_weights_are_the_lengths_of_the_parts() -> None:
    x, links, weights = normal(3, 3), torch.tensor(PATH), [0.3, 2.0]
    z = EncoderEnsemble(members(2), weights, 0.6).eval()(x, links)
    lengths = [part.norm(dim=1) for part in z.split([4, 2, 9], dim=1)]
    for found, expected in zip(lengths, [*weights, 0.6], strict=True):
        torch.testing.assert_close(found, torch.full_like(found, expected))


@pytest.mark.parametrize("attributes", [0.0, 0.7])
def test_weights_and_statistics_survive_a_state_dict(attributes: float) -> None:
    x, links = normal(3, 3), torch.tensor(PATH)
    first, second = (
        EncoderEnsemble(members(3, seed), [1.0] * 3, attributes, trust).eval()
        for seed, trust in ((0, 0.3), (7, 1.0))
    )
    expected = first(x, links)
    assert not torch.equal(second(x, links), expected)
    state = {name: value.clone() for name, value in first.state_dict().items()}
    assert all(name == "trust" or name.startswith("members.") for name in state)
    second.load_state_dict(state)
    assert torch.equal(second(x, links), expected)


def test_a_gradient_reaches_every_member() -> None:
    joined = EncoderEnsemble(members(3), [1.0, 0.5, 2.0], 1.0)
    (joined(normal(3, 3), torch.tensor(PATH)) * normal(3, 23, seed=5)).sum().backward()
    for member in joined.members:
        assert any(each.grad is not None and each.grad.any() for each in member.parameters())


def test_every_member_needs_a_weight() -> None:
    with pytest.raises(ValueError, match="zip"):
        EncoderEnsemble(members(2), [1.0])(normal(3, 3), torch.tensor(PATH))
