"""DGCN: loss and channels against their formulas, and what they learn."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from small_runs import Recorder
from torch.nn import functional as F

from xtcl.baselines.supervised import NonLinkSampler, link_loss, train_supervised
from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split, node_split
from xtcl.lab.methods import dgcn
from xtcl.lab.methods.dgcn import (
    DGCN,
    DGCN_DEFAULT,
    DGCN_SETTINGS,
    DualLinks,
    DualSettings,
    PPMISmoothing,
    TwoLayerDualGCN,
    dual_loss,
    pair_counts,
    positive_information,
    random_walks,
)
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import Progress
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data
from xtcl.training.trainer import seeded

CPU = torch.device("cpu")


GRAPH = block_model(
    200, num_classes=3, num_attributes=30, mean_degree=10, homophily=0.95, attribute_signal=1.5
)


NODES = node_split(GRAPH, 0.2, seed=3)


LINKS = link_split(GRAPH, 0.8, seed=3)


def nodes_of(method: DGCN, side: TrainingData, seed: int = 0) -> np.ndarray:
    answer = method.fit(side, "nodes", seed=seed, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    return answer.probabilities


def links_of(method: DGCN, side: TrainingData, seed: int = 0) -> np.ndarray:
    answer = method.fit(side, "links", seed=seed, device=CPU, progress=Progress())
    assert isinstance(answer, LinkScores)
    return answer.score(np.hstack([LINKS.test, LINKS.test_negatives]))


def smoothing_matrix(graph: Graph) -> np.ndarray:
    looped = graph.adjacency.toarray().astype(np.float64) + np.eye(graph.num_nodes)
    root = np.diag(looped.sum(axis=1) ** -0.5)
    return np.asarray(root @ looped @ root)


def plain_chances(scores: list[float]) -> list[float]:
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def test_loss_is_its_formula() -> None:
    near, far = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
    p, q = ([plain_chances(row) for row in scores.tolist()] for scores in (near, far))
    labels = {4: 2, 0: 1}
    supervised = -sum(math.log(p[node][label]) for node, label in labels.items()) / 2
    apart = sum((a - b) ** 2 for u, v in zip(p, q, strict=True) for a, b in zip(u, v, strict=True))
    labelled, classes = torch.tensor(list(labels)), torch.tensor(list(labels.values()))
    found = dual_loss(near, far, labelled, classes, weight=1.7)
    assert float(found) == pytest.approx(supervised + 1.7 * apart / 5, rel=1e-5)


def test_the_unsupervised_term_grows_and_stays() -> None:
    settings = DualSettings(learning_rate=1.0)
    assert settings.weight(0) == pytest.approx(15 * math.exp(-5))
    assert settings.weight(60) == pytest.approx(15 * math.exp(-1.25))
    assert settings.weight(120) == settings.weight(299) == 15
    weights = [settings.weight(epoch) for epoch in range(121)]
    assert weights == sorted(set(weights))


def test_channels_share_their_weights_and_differ_in_the_graph() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    network = TwoLayerDualGCN(30, 16, 3, dropout=0.9).eval()
    first, second = (w.detach().numpy().astype(np.float64) for w in network.parameters())
    information = network.far.matrix(edge_index, 200).to_dense().numpy()
    channels = network.channels(x, edge_index)
    for smooth, found in zip((smoothing_matrix(GRAPH), information), channels, strict=True):
        expected = smooth @ np.maximum(smooth @ x.numpy() @ first.T, 0.0) @ second.T
        np.testing.assert_allclose(found.detach(), expected, atol=1e-6)
    torch.testing.assert_close(network(x, edge_index), (channels[0] + channels[1]) / 2)


def test_training_is_gradient_descent_on_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = DualSettings(learning_rate=2.0, dropout=0.0, epochs=6, ramp_up=4)
    monkeypatch.setattr(dgcn, "DGCN_DEFAULT", settings)
    side = training_data(GRAPH, NODES)
    found = nodes_of(DGCN(), side, seed=8)

    x, edge_index = encoder_inputs(GRAPH, CPU)
    with seeded(8, CPU):
        network = TwoLayerDualGCN(30, settings.hidden, 3, 0.0)
    weights = [weight.detach().double() for weight in network.parameters()]
    near = torch.from_numpy(smoothing_matrix(GRAPH))
    far = network.far.matrix(edge_index, 200).to_dense()
    train = torch.from_numpy(np.array(NODES.train))
    classes = torch.from_numpy(side.labels[NODES.train])

    def scores(smooth: torch.Tensor) -> torch.Tensor:
        return smooth @ F.relu(smooth @ x.double() @ weights[0].T) @ weights[1].T

    for epoch in range(6):
        weights = [weight.requires_grad_() for weight in weights]
        loss = dual_loss(
            scores(near),
            scores(far),
            train,
            classes,
            weight=15 * math.exp(-5 * (1 - min(epoch, 4) / 4) ** 2),
        )
        slopes = torch.autograd.grad(loss, weights)
        weights = [
            (weight - settings.learning_rate * slope).detach()
            for weight, slope in zip(weights, slopes, strict=True)
        ]
    expected = [plain_chances(row) for row in scores(near).tolist()]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_links_train_the_mean_of_both_channels() -> None:
    side = training_data(GRAPH, LINKS)
    x, edge_index = encoder_inputs(side.graph, CPU)
    links = torch.from_numpy(np.array(side.graph.edges))
    draws = NonLinkSampler(links, 200)
    settings = replace(DualLinks.settings["links"], epochs=4)
    z, _ = train_supervised(
        lambda: TwoLayerDualGCN(30, settings.hidden, settings.width, settings.dropout),
        x,
        edge_index,
        lambda z, generator: link_loss(z, links, draws.draw(links.shape[1], generator)),
        settings,
        seed=2,
    )
    u, v = np.hstack([LINKS.test, LINKS.test_negatives])
    expected = (z[u] * z[v]).sum(dim=1)
    np.testing.assert_allclose(links_of(DGCN(epochs=4), side, seed=2), expected, rtol=1e-4)


def test_classes_of_a_planted_graph_are_found() -> None:
    found = nodes_of(DGCN(), training_data(GRAPH, NODES))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert score_test_side(NodePredictions(found), GRAPH, NODES)["accuracy"] > 0.8  # chance: 0.33


def test_links_of_a_planted_graph_outscore_non_links() -> None:
    side = training_data(GRAPH, LINKS)
    answer = DGCN(epochs=40).fit(side, "links", seed=0, device=CPU, progress=Progress())
    # Links inside a class cannot be told from its non-links: nobody gets far above 0.8 here.
    assert score_test_side(answer, GRAPH, LINKS)["auc"] > 0.7


@pytest.mark.slow
def test_the_unsupervised_term_brings_the_channels_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noisy = block_model(200, num_classes=3, num_attributes=30, mean_degree=3)
    side = training_data(noisy, node_split(noisy, 0.2, seed=3))

    def apart(consistency: float) -> float:
        gaps: list[float] = []

        def spy(
            near: torch.Tensor, far: torch.Tensor, *rest: torch.Tensor, weight: float
        ) -> torch.Tensor:
            gap = (near.softmax(dim=1) - far.softmax(dim=1)).detach()
            gaps.append(gap.square().sum(dim=1).mean().item())
            return dual_loss(near, far, *rest, weight=weight)

        monkeypatch.setattr(dgcn, "dual_loss", spy)
        monkeypatch.setattr(dgcn, "DGCN_DEFAULT", replace(DGCN_DEFAULT, consistency=consistency))
        nodes_of(DGCN(), side)
        return float(np.mean(gaps[-20:]))

    assert apart(15.0) < apart(0.0) / 2


@pytest.mark.slow
def test_same_seed_gives_same_bytes() -> None:
    small = DGCN(epochs=20)
    sides = training_data(GRAPH, NODES), training_data(GRAPH, LINKS)
    state = torch.random.get_rng_state()
    first = nodes_of(small, sides[0], 5), links_of(small, sides[1], 5)
    assert torch.equal(torch.random.get_rng_state(), state)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        second = nodes_of(small, sides[0], 5), links_of(small, sides[1], 5)
    assert [a.tobytes() for a in first] == [a.tobytes() for a in second]
    assert not np.allclose(nodes_of(small, sides[0], 6), first[0])


def test_a_graph_without_attributes_is_answered() -> None:
    bare = Graph.from_arrays(None, GRAPH.edges, GRAPH.labels, num_nodes=200)
    found = nodes_of(DGCN(), training_data(bare, NODES))
    assert score_test_side(NodePredictions(found), bare, NODES)["accuracy"] > 0.6
    scores = links_of(DGCN(epochs=5), training_data(bare, LINKS))
    assert np.isfinite(scores).all()


def test_lone_nodes_and_a_class_with_one_label_are_answered() -> None:
    assert GRAPH.labels is not None
    lone = GRAPH.with_edges(GRAPH.edges[:, (GRAPH.edges > 20).all(axis=0)])
    assert (lone.degrees == 0).sum() >= 20
    labels = np.full(200, -1)
    labels[NODES.train] = GRAPH.labels[NODES.train]
    labels[np.flatnonzero(labels == 2)[1:]] = -1
    found = nodes_of(DGCN(), TrainingData(lone.with_labels(labels)))
    assert np.isfinite(found).all()
    known = np.flatnonzero(labels >= 0)
    assert (found.argmax(axis=1)[known] == labels[known]).mean() > 0.8
    assert np.isfinite(links_of(DGCN(epochs=5), TrainingData(lone, LINKS.train))).all()


def test_a_known_graph_has_its_own_settings_and_epochs_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert set(DGCN_SETTINGS) <= {"cora", "citeseer", "pubmed", "photo", "computers"}
    monkeypatch.setattr(dgcn, "DGCN_SETTINGS", {GRAPH.name: replace(DGCN_DEFAULT, epochs=7)})
    for method, epochs in ((DGCN(), 7), (DGCN(epochs=3), 3)):
        progress = Recorder()
        side = training_data(GRAPH, NODES)
        method.fit(side, "nodes", seed=0, device=CPU, progress=progress)
        assert progress.stages == [("training DGCN", epochs, [1] * epochs)]


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(DataError, match="no known label to train on"):
        nodes_of(DGCN(), TrainingData(GRAPH.with_labels(np.full(200, -1))))
    with pytest.raises(UsageError, match="epochs=0 must be at least 1"):
        nodes_of(DGCN(epochs=0), training_data(GRAPH, NODES))


# Walks, their pairs and the PPMI matrix, against plain counts and against their expectation.

GRAPH_PPMI = block_model(30, num_classes=3, num_attributes=4, mean_degree=4)


# A triangle with a tail, and a node that is alone.
TINY = Graph.from_arrays(edges=[[0, 0, 1, 2, 3], [1, 2, 2, 3, 4]], num_nodes=6)


def links_of_ppmi(graph: Graph) -> torch.Tensor:
    return torch.from_numpy(np.array(graph.edge_index))


def walks_of(graph: Graph, walks: int, steps: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return random_walks(links_of_ppmi(graph), graph.num_nodes, walks, steps, generator)


def plain_counts(walks: torch.Tensor) -> Counter[tuple[int, int]]:
    """Every two places of every walk, in both orders."""
    return Counter(pair for walk in walks.tolist() for pair in permutations(walk, 2))


def plain_ppmi(counts: Counter[tuple[int, int]], num_nodes: int) -> np.ndarray:
    """Straight from the formula, dense."""
    total = sum(counts.values())
    row, column = Counter[int](), Counter[int]()
    for (u, v), count in counts.items():
        row[u] += count
        column[v] += count
    matrix = np.zeros((num_nodes, num_nodes))
    for (u, v), count in counts.items():
        matrix[u, v] = max(0.0, math.log(total * count / (row[u] * column[v])))
    return matrix


def expected_counts(graph: Graph, steps: int) -> np.ndarray:
    """Of one walk from every node: powers of the transition matrix of A + I."""
    move = graph.adjacency.toarray() + np.eye(graph.num_nodes)
    move = move / move.sum(axis=1, keepdims=True)
    place = [np.linalg.matrix_power(move, step) for step in range(steps + 1)]
    one_way = sum(
        np.diag(place[first].sum(axis=0)) @ place[second - first]
        for first in range(steps + 1)
        for second in range(first + 1, steps + 1)
    )
    return np.asarray(one_way + one_way.T)


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_walks_follow_links_or_stay(steps: int) -> None:
    walks = walks_of(TINY, 50, steps)
    assert walks.shape == (6 * 50, steps + 1)
    np.testing.assert_array_equal(walks[:, 0], np.repeat(np.arange(6), 50))
    allowed = TINY.adjacency.toarray() + np.eye(6) > 0
    for walk in walks.tolist():
        assert all(allowed[u, v] for u, v in pairwise(walk))


def test_every_neighbour_and_staying_are_as_likely() -> None:
    walks = walks_of(TINY, 20_000, 1)
    for node in range(6):
        choices = [node, *TINY.adjacency[[node]].indices.tolist()]
        ends = walks[walks[:, 0] == node, 1]
        shares = [(ends == choice).double().mean().item() for choice in choices]
        assert shares == pytest.approx([1 / len(choices)] * len(choices), abs=0.015)  # 4 sigma


@pytest.mark.parametrize("steps", [1, 3])
def test_pairs_are_counted_as_by_hand(steps: int) -> None:
    walks = walks_of(GRAPH_PPMI, 7, steps)
    pairs, counts = pair_counts(walks, 30)
    found = {(u, v): count for (u, v), count in zip(pairs.T.tolist(), counts.tolist(), strict=True)}
    assert found == plain_counts(walks)
    assert counts.sum() == 30 * 7 * steps * (steps + 1)
    keys = pairs[0] * 30 + pairs[1]
    assert (keys.diff() > 0).all()


@pytest.mark.parametrize(("steps", "all_kept"), [(1, True), (3, False)])
def test_information_is_its_formula(steps: int, all_kept: bool) -> None:
    walks = walks_of(GRAPH_PPMI, 7, steps)
    pairs, information = positive_information(*pair_counts(walks, 30), 30)
    assert (information > 0).all()
    found = np.zeros((30, 30))
    found[pairs[0], pairs[1]] = information
    expected = plain_ppmi(plain_counts(walks), 30)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # On long walks some nodes meet less often than by chance.
    assert (len(information) == len(plain_counts(walks))) == all_kept


@pytest.mark.parametrize("steps", [1, 2])
def test_many_walks_come_to_the_expected_matrix(steps: int) -> None:
    walks = 20_000
    pairs, counts = pair_counts(walks_of(TINY, walks, steps), 6)
    found = np.zeros((6, 6))
    found[pairs[0], pairs[1]] = counts / walks
    expected = expected_counts(TINY, steps)
    np.testing.assert_allclose(found, expected, atol=0.03)
    np.testing.assert_array_equal(found > 0, expected > 0)

    pairs, information = positive_information(pairs, counts, 6)
    found = np.zeros((6, 6))
    found[pairs[0], pairs[1]] = information
    sums = expected.sum(axis=1)
    with np.errstate(divide="ignore"):
        exact = np.log(expected.sum() * expected / np.outer(sums, sums)).clip(min=0)
    np.testing.assert_allclose(found, exact, atol=0.05)
    assert found[5, 5] == pytest.approx(math.log(6))  # it only ever meets itself


def made(walks: int = 9, steps: int = 2, seed: int = 0) -> PPMISmoothing:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return PPMISmoothing(walks, steps)


def test_smoothing_is_the_normalised_matrix() -> None:
    module = made()
    walks = walks_of(GRAPH_PPMI, 9, 2, module.seed)
    dense = plain_ppmi(plain_counts(walks), 30)
    root = np.diag(dense.sum(axis=1) ** -0.5)
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(1))
    found = module(x, links_of_ppmi(GRAPH_PPMI))
    np.testing.assert_allclose(found, root @ dense @ root @ x.numpy(), atol=1e-6)


def test_gradient_is_that_of_the_matrix() -> None:
    module, links = made(), links_of_ppmi(GRAPH_PPMI)
    matrix = module.matrix(links, 30).to_dense()
    torch.testing.assert_close(matrix, matrix.T)
    x = torch.randn(30, 5, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(30, 5, dtype=torch.float64)
    (module(x, links) * weights).sum().backward()
    torch.testing.assert_close(x.grad, matrix.T @ weights)


def test_walks_are_drawn_once_and_follow_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    links, x = links_of_ppmi(GRAPH_PPMI), torch.ones(30, 2)
    module = made(seed=4)
    first = module(x, links)
    again = made(seed=4)(x, links)
    assert torch.equal(first, again)
    assert not torch.allclose(first, made(seed=5)(x, links))
    monkeypatch.setattr(PPMISmoothing, "matrix", None)
    assert torch.equal(module(x, links), first)


@pytest.mark.parametrize("num_nodes", [1, 5])
def test_a_graph_without_links_is_left_as_it_is(num_nodes: int) -> None:
    x = torch.rand(num_nodes, 2)
    found = made()(x, torch.zeros(2, 0, dtype=torch.int64))
    # Alone, a node tells nothing about itself: log 1.
    torch.testing.assert_close(found, x if num_nodes > 1 else torch.zeros(1, 2))


def test_nothing_to_walk_is_refused() -> None:
    with pytest.raises(UsageError, match="walks=0 must be at least 1"):
        PPMISmoothing(0)
    with pytest.raises(UsageError, match="steps=0 must be at least 1"):
        PPMISmoothing(10, 0)
