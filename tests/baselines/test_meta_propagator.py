"""The propagator against plain loops, its gradient against autograd through a real virtual step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from xtcl.graph.graph import Graph
from xtcl.lab.methods.meta_pn import (
    MetaPropagator,
    PseudoLoss,
    Weights,
    gold_direction,
    labels_per_hop,
    meta_objective,
)

CLASSES, HOPS, NODES, WIDTH, HIDDEN = 3, 4, 12, 5, 6
RATE = 0.3
LOSS = PseudoLoss(scale=7.0, decay=0.02)


def test_labels_spread_as_powers_of_the_normalised_adjacency() -> None:
    links = np.array([[0, 1, 2, 0], [1, 2, 3, 2]])
    graph = Graph.from_arrays(None, links, num_nodes=5)  # node 4 has no link
    start = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    looped = graph.adjacency.toarray().astype(np.float64) + np.eye(5)
    degree = looped.sum(axis=1)
    found = labels_per_hop(start, torch.from_numpy(np.array(graph.edge_index)), 3)
    assert found.shape == (5, 3, 2)
    expected = start.double().numpy()
    for hop in range(3):
        expected = np.array(
            [
                sum(looped[i, j] / math.sqrt(degree[i] * degree[j]) * expected[j] for j in range(5))
                for i in range(5)
            ]
        )
        np.testing.assert_allclose(found[:, hop].numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(found[4].numpy(), [[1, 0]] * 3)


class Tiny:
    """A problem small enough for exact second derivatives, in double precision."""

    def __init__(self, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)

        def normal(*size: int) -> Tensor:
            return torch.randn(*size, generator=draw, dtype=torch.float64)

        self.x, self.gold_x = normal(NODES, WIDTH), normal(5, WIDTH)
        self.gold = torch.randint(CLASSES, (5,), generator=draw)
        self.start = F.one_hot(torch.randint(CLASSES, (NODES,), generator=draw), CLASSES).double()
        self.start[3:] = 0.0
        self.spread = normal(NODES, HOPS, CLASSES).abs()
        self.weights: Weights = (
            normal(WIDTH, HIDDEN).requires_grad_(),
            normal(HIDDEN, CLASSES).requires_grad_(),
        )
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.propagator = MetaPropagator(CLASSES).double()

    def pseudo(self) -> Tensor:
        found: Tensor = self.propagator(self.start, self.spread)
        return found

    def chances(self, weights: Weights) -> Tensor:
        return F.log_softmax(torch.relu(self.x @ weights[0]) @ weights[1], dim=1)

    def gold_loss(self, weights: Weights) -> Tensor:
        scores = torch.relu(self.gold_x @ weights[0]) @ weights[1]
        return F.cross_entropy(scores, self.gold)

    def slope(self, create_graph: bool = False) -> Weights:
        value = LOSS(self.pseudo(), self.chances(self.weights), self.weights)
        return torch.autograd.grad(value, self.weights, create_graph=create_graph)

    def gold_after_a_step(self) -> Tensor:
        """Nothing but autograd: the gold loss as a function of the propagator."""
        pairs = zip(self.weights, self.slope(create_graph=True), strict=True)
        return self.gold_loss(tuple(weight - RATE * slope for weight, slope in pairs))

    def meta_gradient(self) -> Weights:
        direction = gold_direction(self.weights, self.slope(), RATE, self.gold_loss)
        objective = meta_objective(self.chances, self.weights, direction, self.pseudo(), LOSS, RATE)
        return torch.autograd.grad(objective, list(self.propagator.parameters()))


def flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.flatten() for part in parts])


def test_pseudo_labels_are_plain_loops() -> None:
    tiny = Tiny(0)
    torch.nn.init.constant_(tiny.propagator.first.bias, 0.2)
    w, b, v = (part.tolist() for part in tiny.propagator.parameters())
    found = tiny.pseudo().tolist()
    for i in range(NODES):
        scores = []
        for k in range(HOPS):
            y = tiny.spread[i, k].tolist()
            inner = [
                max(0.0, sum(w[r][c] * y[c] for c in range(CLASSES)) + b[r]) for r in range(CLASSES)
            ]
            scores.append(sum(v[0][r] * inner[r] for r in range(CLASSES)))
        total = sum(math.exp(score) for score in scores)
        for c in range(CLASSES):
            expected = float(tiny.start[i, c]) + sum(
                math.exp(scores[k]) / total * float(tiny.spread[i, k, c]) for k in range(HOPS)
            )
            assert found[i][c] == pytest.approx(expected)


def test_first_weights_are_within_their_bound() -> None:
    weight, bias, vector = MetaPropagator(16).parameters()
    for part in (weight, vector):
        assert part.abs().max() <= 0.25
        assert part.abs().max() > 0.15
    assert not bias.any()


def test_the_propagator_of_few_classes_is_awake() -> None:
    """Pseudo labels of small spread labels have a gradient, whatever the first weights."""
    tiny = Tiny(0)
    with torch.random.fork_rng():
        for seed in range(20):
            torch.manual_seed(seed)
            propagator = MetaPropagator(CLASSES).double()
            pseudo = propagator(tiny.start, 0.01 * tiny.spread)
            slopes = torch.autograd.grad(pseudo.square().sum(), list(propagator.parameters()))
            assert flat(slopes).any()


def test_loss_is_its_formula() -> None:
    tiny = Tiny(1)
    pseudo, chances = tiny.pseudo().tolist(), tiny.chances(tiny.weights).tolist()
    total = 0.0
    for i in range(NODES):
        for c in range(CLASSES):
            total -= 7.0 / (NODES * CLASSES) * pseudo[i][c] * chances[i][c]
    total += 0.02 / 2 * sum(weight**2 for weight in tiny.weights[0].flatten().tolist())
    found = LOSS(tiny.pseudo(), tiny.chances(tiny.weights), tiny.weights)
    assert found.item() == pytest.approx(total)


@pytest.mark.parametrize("seed", range(5))
def test_finite_difference_is_the_gradient_through_the_virtual_step(seed: int) -> None:
    tiny = Tiny(seed)
    exact = flat(torch.autograd.grad(tiny.gold_after_a_step(), list(tiny.propagator.parameters())))
    found = flat(tiny.meta_gradient())
    assert exact.norm() > 1e-4
    assert (found - exact).norm() < 0.02 * exact.norm()


def test_following_the_meta_gradient_serves_the_gold_labels() -> None:
    tiny = Tiny(2)
    before = tiny.gold_after_a_step().item()
    for _ in range(50):
        gradient = tiny.meta_gradient()
        with torch.no_grad():
            for part, slope in zip(tiny.propagator.parameters(), gradient, strict=True):
                part.sub_(0.5 * slope)
    assert tiny.gold_after_a_step().item() < before - 1e-3


def test_the_virtual_step_is_taken_and_leaves_nothing_behind() -> None:
    tiny = Tiny(3)
    kept = [weight.detach().clone() for weight in tiny.weights]
    slope = tiny.slope()
    found = gold_direction(tiny.weights, slope, RATE, tiny.gold_loss)
    moved = [
        (weight - RATE * part).detach().requires_grad_()
        for weight, part in zip(tiny.weights, slope, strict=True)
    ]
    expected = torch.autograd.grad(tiny.gold_loss(tuple(moved)), moved)
    torch.testing.assert_close(flat(found), flat(expected))
    assert not flat(found).allclose(
        flat(torch.autograd.grad(tiny.gold_loss(tiny.weights), tiny.weights))
    )
    tiny.meta_gradient()
    for weight, before in zip(tiny.weights, kept, strict=True):
        assert torch.equal(weight, before)
        assert weight.grad is None


def test_no_direction_teaches_nothing() -> None:
    tiny = Tiny(4)
    nowhere = tuple(torch.zeros_like(weight) for weight in tiny.weights)
    objective = meta_objective(tiny.chances, tiny.weights, nowhere, tiny.pseudo(), LOSS, RATE)
    found = torch.autograd.grad(objective, list(tiny.propagator.parameters()))
    assert float(flat(found).abs().max()) == 0.0
