"""Meta-PN: its network and last step against plain algebra, and what every system must do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import node_split
from xtcl.lab.methods.meta_pn import (
    META_PN_SETTINGS,
    SMOOTHING_HOPS,
    FixedRows,
    Lesson,
    MetaPN,
    MetaPNSettings,
    MetaPropagator,
    NetworkWeights,
    PseudoLoss,
    first_weights,
    gold_direction,
    labels_per_hop,
    log_chances,
    meta_objective,
    train_meta_pn,
)
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import Advance, Progress
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data
from xtcl.training.trainer import seeded

CPU = torch.device("cpu")


GRAPH = block_model(
    200, num_classes=3, num_attributes=30, mean_degree=10, homophily=0.9, attribute_signal=1.2
)


SPLIT = node_split(GRAPH, 0.1, seed=3)


SIDE = training_data(GRAPH, SPLIT)


SHORT = MetaPNSettings(epochs=5)


def chances_of(
    side: TrainingData, settings: MetaPNSettings | None = None, seed: int = 0
) -> np.ndarray:
    answer = MetaPN(settings).fit(side, "nodes", seed=seed, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    assert answer.probabilities.shape == (side.graph.num_nodes, side.graph.num_classes)
    np.testing.assert_allclose(answer.probabilities.sum(axis=1), 1.0)
    return answer.probabilities


def accuracy(found: np.ndarray, graph: Graph) -> float:
    return score_test_side(NodePredictions(found), graph, SPLIT)["accuracy"]


def lesson_of(side: TrainingData, settings: MetaPNSettings) -> Lesson:
    """The lesson, put together by hand."""
    x, edge_index = encoder_inputs(side.graph, CPU)
    classes = torch.from_numpy(side.labels[side.labelled])
    start = torch.zeros(side.graph.num_nodes, side.graph.num_classes)
    for node, code in zip(side.labelled, classes.tolist(), strict=True):
        start[int(node), code] = 1.0
    lengths = {1: x.abs().sum(dim=1), 2: x.square().sum(dim=1).sqrt()}[settings.row_norm]
    x = x / lengths[:, None].clamp(min=1e-12)
    known = torch.stack([x[int(node)] for node in side.labelled])
    spread = labels_per_hop(start, edge_index, settings.hops)
    return Lesson(FixedRows(x), FixedRows(known), classes, start, spread)


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_fixed_rows_have_the_product_and_gradient_of_dense_ones(share: float) -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(40, 50, generator=draw) * (torch.rand(40, 50, generator=draw) < share)
    rows = FixedRows(x)
    assert (rows.rows.layout == torch.sparse_csr) == (share < 0.05)
    weights = torch.randn(50, 7, generator=draw).requires_grad_()
    torch.testing.assert_close(rows.times(weights), x @ weights)
    pull = torch.randn(40, 7, generator=draw)
    found, expected = (
        torch.autograd.grad((product * pull).sum(), weights)[0]
        for product in (rows.times(weights), x @ weights)
    )
    torch.testing.assert_close(found, expected)


def test_network_is_its_formula() -> None:
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
    with seeded(0, CPU):
        weights = first_weights(4, 8, 3, device=CPU)
    first, first_bias, second, second_bias = (w.detach().double().numpy() for w in weights)
    assert (first.shape, second.shape) == ((4, 8), (8, 3))
    assert (first_bias.shape, second_bias.shape) == ((8,), (3,))
    scores = np.maximum(x.double().numpy() @ first + first_bias, 0.0) @ second + second_bias
    expected = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    found = log_chances(weights, FixedRows(x)).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_network_begins_as_in_the_official_code() -> None:
    with seeded(0, CPU):
        weights = first_weights(400, 100, 25, device=CPU)
    for weight, bound in zip(weights, (0.05, 0.1, 0.1, 0.2), strict=True):
        assert weight.requires_grad
        assert weight.abs().max() <= bound
        assert weight.abs().max() > 0.8 * bound
        assert float(weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.2)


def train_exactly(lesson: Lesson, settings: MetaPNSettings, seed: int) -> NetworkWeights:
    """Training by its definition, with autograd through the virtual step for the meta gradient."""
    start, spread, rate = lesson.start, lesson.spread, settings.learning_rate
    loss = PseudoLoss(settings.scale, settings.decay)
    with seeded(seed, CPU):
        weights = first_weights(lesson.rows.width, settings.hidden, start.shape[1], device=CPU)
        propagator = MetaPropagator(start.shape[1])
    optimiser = torch.optim.Adam(weights, lr=rate)
    meta_optimiser = torch.optim.Adam(propagator.parameters(), lr=settings.meta_rate)
    for _ in range(settings.epochs):
        if settings.meta_rate:
            value = loss(propagator(start, spread), log_chances(weights, lesson.rows), weights)
            slopes = torch.autograd.grad(value, weights, create_graph=True)
            moved = tuple(w - rate * slope for w, slope in zip(weights, slopes, strict=True))
            meta_optimiser.zero_grad()
            scores = log_chances(moved, lesson.known_rows)
            torch.autograd.backward(F.nll_loss(scores, lesson.classes))
            meta_optimiser.step()
        optimiser.zero_grad()
        pseudo = propagator(start, spread).detach()
        torch.autograd.backward(loss(pseudo, log_chances(weights, lesson.rows), weights))
        optimiser.step()
    return weights


def test_training_is_its_definition() -> None:
    lesson, settings = (
        lesson_of(SIDE, SHORT),
        MetaPNSettings(epochs=5, learning_rate=0.1, meta_rate=0.1),
    )
    found, exact, still = (
        torch.cat([weight.detach().flatten() for weight in weights])
        for weights in (
            train_meta_pn(lesson, settings, seed=2),
            train_exactly(lesson, settings, seed=2),
            train_exactly(lesson, replace(settings, meta_rate=0.0), seed=2),
        )
    )
    assert (found - exact).norm() < 0.01 * (still - exact).norm()


def test_meta_steps_touch_neither_weights_nor_optimiser() -> None:
    """With a propagator that stands still, the network learns as if there were no meta step."""
    lesson, settings = lesson_of(SIDE, SHORT), MetaPNSettings(epochs=20, meta_rate=0.0)
    found, plain = (train(lesson, settings, seed=4) for train in (train_meta_pn, train_exactly))
    for one, other in zip(found, plain, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def gold(lesson: Lesson, weights: NetworkWeights) -> float:
    return float(F.nll_loss(log_chances(weights, lesson.known_rows), lesson.classes).detach())


def test_training_brings_the_known_labels_closer() -> None:
    lesson = lesson_of(SIDE, SHORT)
    short, long = (train_meta_pn(lesson, MetaPNSettings(epochs=e), seed=0) for e in (1, 60))
    assert gold(lesson, long) < gold(lesson, short) - 0.3


@pytest.mark.parametrize("row_norm", [1, 2])
def test_answer_is_the_networks_own_smoothed_by_pagerank(row_norm: int) -> None:
    settings = MetaPNSettings(row_norm=row_norm, epochs=5, restart=0.3)
    lesson = lesson_of(SIDE, settings)
    own = log_chances(train_meta_pn(lesson, settings, seed=2), lesson.rows).detach()
    looped = GRAPH.adjacency.toarray().astype(np.float64) + np.eye(200)
    root = np.diag(looped.sum(axis=1) ** -0.5)
    start = own.double().exp().numpy()
    rows = start
    for _ in range(SMOOTHING_HOPS):
        rows = 0.7 * (root @ looped @ root @ rows) + 0.3 * start
    expected = rows / rows.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chances_of(SIDE, settings, seed=2), expected, atol=1e-5)


def test_citation_graphs_have_the_published_rows() -> None:
    norms = {name: settings.row_norm for name, settings in META_PN_SETTINGS.items()}
    assert norms == {"cora": 1, "citeseer": 1, "pubmed": 1, "photo": 2}


def test_classes_of_a_planted_graph_are_found() -> None:
    assert accuracy(chances_of(SIDE), GRAPH) > 0.8  # chance: 0.33


def test_published_settings_serve_the_planted_graph_too() -> None:
    assert accuracy(chances_of(SIDE, META_PN_SETTINGS["cora"]), GRAPH) > 0.8


def test_links_carry_labels_to_nodes_that_have_nothing_else() -> None:
    bare = Graph.from_arrays(None, GRAPH.edges, GRAPH.labels, num_nodes=200)
    assert accuracy(chances_of(training_data(bare, SPLIT)), bare) > 0.6


def test_same_seed_gives_same_bytes_and_leaves_the_global_state() -> None:
    first = chances_of(SIDE, SHORT, seed=5)
    before = torch.random.get_rng_state()
    second = chances_of(SIDE, SHORT, seed=5)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first.tobytes() == second.tobytes()
    assert not np.allclose(first, chances_of(SIDE, SHORT, seed=6))


def test_test_labels_change_nothing() -> None:
    assert GRAPH.labels is not None
    wrong = np.array(GRAPH.labels)
    wrong[SPLIT.test] = np.random.default_rng(0).permutation(wrong[SPLIT.test])
    other = training_data(GRAPH.with_labels(wrong), SPLIT)
    np.testing.assert_array_equal(chances_of(other, SHORT), chances_of(SIDE, SHORT))


def test_isolated_nodes_keep_the_networks_own_answer() -> None:
    links = GRAPH.edges[:, (GRAPH.edges >= 20).all(axis=0)]
    side = training_data(GRAPH.with_edges(links), SPLIT)
    lesson = lesson_of(side, SHORT)
    own = log_chances(train_meta_pn(lesson, SHORT, seed=0), lesson.rows).detach().exp().numpy()
    np.testing.assert_allclose(chances_of(side, SHORT)[:20], own[:20], atol=1e-5)


def test_a_graph_without_links_is_answered() -> None:
    side = training_data(GRAPH.with_edges(np.zeros((2, 0), np.int64)), SPLIT)
    assert accuracy(chances_of(side), GRAPH) > 0.5


@pytest.mark.parametrize("kept", [0, 1])
def test_a_class_may_have_one_label_or_none(kept: int) -> None:
    labels = np.array(SIDE.labels)
    labels[np.flatnonzero(labels == 2)[kept:]] = -1
    found = chances_of(TrainingData(GRAPH.with_labels(labels)), SHORT)
    assert np.isfinite(found).all()


def test_settings_go_by_the_name_of_the_graph() -> None:
    for name, settings in (("cora", META_PN_SETTINGS["cora"]), ("mine", MetaPNSettings())):
        side = TrainingData(replace(SIDE.graph, name=name))
        np.testing.assert_array_equal(chances_of(side), chances_of(side, settings))


def test_progress_counts_the_epochs() -> None:
    reported: list[str] = []

    class Listening(Progress):
        @contextmanager
        def stage(self, name: str, steps: int) -> Iterator[Advance]:
            reported.append(f"{name}: {steps}")
            yield lambda done: reported.append(str(done))

    MetaPN(SHORT).fit(SIDE, "nodes", seed=0, device=CPU, progress=Listening())
    assert reported == ["training Meta-PN: 5", *["1"] * 5]


def test_what_cannot_be_done_is_said() -> None:
    def fit(side: TrainingData, settings: MetaPNSettings = SHORT) -> None:
        MetaPN(settings).fit(side, "nodes", seed=0, device=CPU, progress=Progress())

    with pytest.raises(DataError, match="no known label"):
        fit(TrainingData(GRAPH.with_labels(np.full(200, -1))))
    for name in ("epochs", "hops", "hidden"):
        with pytest.raises(UsageError, match=f"{name}=0 must be at least 1"):
            fit(SIDE, replace(SHORT, **{name: 0}))


# The propagator against plain loops, its gradient against autograd through a real virtual step.

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
        self.weights: NetworkWeights = (
            normal(WIDTH, HIDDEN).requires_grad_(),
            normal(HIDDEN, CLASSES).requires_grad_(),
        )
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.propagator = MetaPropagator(CLASSES).double()

    def pseudo(self) -> Tensor:
        found: Tensor = self.propagator(self.start, self.spread)
        return found

    def chances(self, weights: NetworkWeights) -> Tensor:
        return F.log_softmax(torch.relu(self.x @ weights[0]) @ weights[1], dim=1)

    def gold_loss(self, weights: NetworkWeights) -> Tensor:
        scores = torch.relu(self.gold_x @ weights[0]) @ weights[1]
        return F.cross_entropy(scores, self.gold)

    def slope(self, create_graph: bool = False) -> NetworkWeights:
        value = LOSS(self.pseudo(), self.chances(self.weights), self.weights)
        return torch.autograd.grad(value, self.weights, create_graph=create_graph)

    def gold_after_a_step(self) -> Tensor:
        """Nothing but autograd: the gold loss as a function of the propagator."""
        pairs = zip(self.weights, self.slope(create_graph=True), strict=True)
        return self.gold_loss(tuple(weight - RATE * slope for weight, slope in pairs))

    def meta_gradient(self) -> NetworkWeights:
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
    for part in MetaPropagator(16).parameters():  # weight, bias and vector alike
        assert part.abs().max() <= 0.25
        assert part.abs().max() > 0.15


def test_a_propagator_that_sleeps_trusts_every_hop_alike() -> None:
    """With few classes all biases may begin below 0, as they do in the official code."""
    tiny, propagator = Tiny(0), MetaPropagator(CLASSES).double()
    nn.init.constant_(propagator.first.bias, -9.0)
    found = propagator(tiny.start, tiny.spread)
    torch.testing.assert_close(found, tiny.start + tiny.spread.mean(dim=1))


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
