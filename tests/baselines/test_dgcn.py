"""DGCN: loss and channels against their formulas, and what they learn."""

from __future__ import annotations

import math
from dataclasses import replace

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
    TwoLayerDualGCN,
    dual_loss,
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
