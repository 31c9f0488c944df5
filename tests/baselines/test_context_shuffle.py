"""The shuffle and its pairs by brute force, their loss by plain loops, the network by algebra."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from xtcl.graph.datasets.synthetic import block_model
from xtcl.lab.methods.cocos import Contexts, SharingGCN, cocos_contrast
from xtcl.nn.encoder import encoder_inputs

GRAPH = block_model(60, num_classes=3, num_attributes=30, mean_degree=5)
# Class 1 has a single node, class 2 none at all, class 3 nodes at both ends.
MIXED = [3, 0, 0, 1, 4, 0, 3, 4, 4, 4, 3]
EACH = {"mixed": MIXED, "one class": [2, 2, 2, 2], "one node": [0], "two nodes": [1, 0], "none": []}
each_estimate = pytest.mark.parametrize("estimate", EACH.values(), ids=EACH)


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def contexts_of(estimate: list[int]) -> Contexts:
    return Contexts(torch.tensor(estimate, dtype=torch.int64))


@each_estimate
def test_a_shuffle_uses_every_row_once_and_stays_within_classes(estimate: list[int]) -> None:
    contexts, generator = contexts_of(estimate), drawn()
    for _ in range(50):
        order = contexts.shuffle(generator).tolist()
        assert sorted(order) == list(range(len(estimate)))
        assert [estimate[row] for row in order] == estimate


def test_every_shuffle_within_classes_is_equally_likely() -> None:
    estimate = [0, 2, 0, 2, 0]
    contexts, generator = contexts_of(estimate), drawn()
    rounds = 2400
    counts = Counter(tuple(contexts.shuffle(generator).tolist()) for _ in range(rounds))
    possible = [
        order for order in permutations(range(5)) if [estimate[row] for row in order] == estimate
    ]
    assert set(counts) == set(possible)
    assert len(possible) == 12
    for count in counts.values():  # 200 expected, with a standard deviation of 13.5
        assert abs(count - rounds / 12) < 60


@each_estimate
def test_negatives_are_always_of_another_class(estimate: list[int]) -> None:
    contexts, generator = contexts_of(estimate), drawn()
    for _ in range(50):
        others = contexts.outside(generator).tolist()
        if len(set(estimate)) < 2:
            assert others == []
        else:
            assert len(others) == len(estimate)
            assert all(estimate[i] != estimate[j] for i, j in enumerate(others))


def test_every_node_of_another_class_is_an_equally_likely_negative() -> None:
    contexts, generator = contexts_of(MIXED), drawn()
    rounds, n = 3000, len(MIXED)
    counts = np.zeros((n, n))
    for _ in range(rounds):
        counts[np.arange(n), contexts.outside(generator).numpy()] += 1
    for i in range(n):
        others = [j for j in range(n) if MIXED[j] != MIXED[i]]
        expected = rounds / len(others)
        assert np.all(np.abs(counts[i, others] - expected) < 5 * math.sqrt(expected))
        assert counts[i].sum() == counts[i, others].sum()


def test_draws_repeat_and_go_on() -> None:
    contexts = contexts_of(MIXED * 5)
    for draw in (contexts.shuffle, contexts.outside):
        generator = drawn(4)
        first, second = draw(generator), draw(generator)
        assert torch.equal(first, draw(drawn(4)))
        assert not torch.equal(first, second)


def rows(n: int, seed: int) -> Tensor:
    return torch.randn(n, 3, generator=drawn(seed))


def discriminator() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 1))


def looped_score(judge: nn.Sequential, left: list[float], right: list[float]) -> float:
    """The discriminator's chance that a pair is of one context, term by term."""
    layers = [judge[0], judge[2]]
    values = [*left, *right]
    for number, layer in enumerate(layers):
        assert isinstance(layer, nn.Linear)
        weights, biases = layer.weight.tolist(), layer.bias.tolist()
        values = [
            sum(w * v for w, v in zip(row, values, strict=True)) + bias
            for row, bias in zip(weights, biases, strict=True)
        ]
        values = [max(0.0, v) for v in values] if number == 0 else values
    return 1 / (1 + math.exp(-values[0]))


def looped_contrast(
    judge: nn.Sequential, z: Tensor, shuffled: Tensor, partner: list[int], other: list[int]
) -> float:
    before, after = z.tolist(), shuffled.tolist()
    n, total = len(before), 0.0
    for i in range(n):
        total -= math.log(looped_score(judge, after[i], before[i])) / (2 * n)
        total -= math.log(looped_score(judge, after[partner[i]], after[i])) / (2 * n)
    for i, j in enumerate(other):
        total -= math.log(1 - looped_score(judge, before[i], before[j])) / n
    return total


@each_estimate
def test_the_contrast_is_its_formula(estimate: list[int]) -> None:
    n, contexts, judge = len(estimate), contexts_of(estimate), discriminator()
    z, shuffled = rows(n, 1), rows(n, 2)
    found = cocos_contrast(judge, z, shuffled, contexts, drawn(7))
    generator = drawn(7)
    partner, other = contexts.shuffle(generator).tolist(), contexts.outside(generator).tolist()
    expected = looped_contrast(judge, z, shuffled, partner, other)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_no_gradient_goes_through_the_other_node_of_a_negative() -> None:
    judge = discriminator()
    contexts = contexts_of(MIXED)
    z, shuffled = rows(len(MIXED), 1).requires_grad_(), rows(len(MIXED), 2)
    torch.autograd.backward(cocos_contrast(judge, z, shuffled, contexts, drawn(7)))
    found = z.grad
    generator = drawn(7)
    contexts.shuffle(generator)
    other = contexts.outside(generator)
    # The same with the other nodes' rows as numbers of their own.
    own = z.detach().clone().requires_grad_()
    fixed = z.detach()[other]
    same = judge(torch.cat([shuffled, own], dim=1))
    apart = judge(torch.cat([own, fixed], dim=1))
    expected = nn.functional.softplus(-same).mean() / 2 + nn.functional.softplus(apart).mean()
    torch.autograd.backward(expected)
    assert found is not None
    assert own.grad is not None
    torch.testing.assert_close(found, own.grad)


def test_gradients_of_a_lonely_context_stay_finite() -> None:
    for estimate in ([2, 2, 2], [], [0]):
        z = rows(len(estimate), 1).requires_grad_()
        value = cocos_contrast(discriminator(), z, 2 * z, contexts_of(estimate), drawn())
        torch.autograd.backward(value)
        assert z.grad is not None
        assert torch.isfinite(z.grad).all()


def dense_scores(network: SharingGCN, x: np.ndarray) -> np.ndarray:
    """Class scores for attributes `x` on GRAPH, from the whole matrices."""
    looped = GRAPH.adjacency.toarray().astype(np.float64) + np.eye(GRAPH.num_nodes)
    root = np.diag(looped.sum(axis=1) ** -0.5)
    smooth = root @ looped @ root
    first, second = (
        layer.weight.detach().numpy().astype(np.float64)
        for layer in (network.first, network.second)
    )
    return np.asarray(smooth @ np.maximum(smooth @ x @ first.T, 0.0) @ second.T)


@pytest.mark.parametrize("form", [Tensor.clone, Tensor.to_sparse_csr])
def test_the_network_shuffles_attributes_and_not_links(form: Callable[[Tensor], Tensor]) -> None:
    x, edge_index = encoder_inputs(GRAPH, torch.device("cpu"))
    network = SharingGCN(30, 16, 3, 0.6, 8).eval()
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        plain = network(form(x), edge_index).numpy()
        shuffled = network(form(x), edge_index, order).numpy()
    np.testing.assert_allclose(plain, dense_scores(network, x.numpy()), atol=1e-5)
    np.testing.assert_allclose(shuffled, dense_scores(network, x.numpy()[order]), atol=1e-5)


def test_gradients_through_sparse_attributes_are_those_through_dense_ones() -> None:
    x, edge_index = encoder_inputs(GRAPH, torch.device("cpu"))
    network = SharingGCN(30, 16, 3, 0.0, 8)
    gradients = []
    for form in (x, x.to_sparse_csr()):
        network.zero_grad()
        torch.autograd.backward(network(form, edge_index).square().sum())
        assert network.first.weight.grad is not None
        gradients.append(network.first.weight.grad.clone())
    torch.testing.assert_close(gradients[0], gradients[1])
