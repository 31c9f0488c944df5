"""Embeddings without labels under the package's own heads."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from small_runs import small_graph, small_split
from torch import nn

from xtcl.baselines import METHODS
from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split, node_split
from xtcl.lab.methods.asp import ASP, ASPSettings
from xtcl.lab.methods.cocos import lighter
from xtcl.lab.methods.dgi import DGI, DGISettings
from xtcl.lab.methods.polygcl import PLAIN, PolyGCL
from xtcl.lab.methods.self_supervised import (
    Discriminator,
    SelfSupervised,
    WithTaskSettings,
    infomax_inputs,
    shuffle_rows,
    sparse_if_few,
    train_until_flat,
)
from xtcl.lab.methods.sugrl import SUGRL, SUGRLSettings
from xtcl.progress import Progress
from xtcl.tasks.link_prediction import VALIDATION_LINK_SHARE, choose_scorer, fit_chosen, hide_links
from xtcl.tasks.logistic import fit_logistic
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.self_training import self_train
from xtcl.tasks.training_data import TrainingData, training_data

CPU = torch.device("cpu")


GRAPH = small_graph()


class Neighbours(SelfSupervised):
    """The sum of the neighbours' attributes; remembers the graphs it was shown."""

    name: ClassVar[str] = "neighbours"
    title: ClassVar[str] = "Neighbours"

    def __init__(self) -> None:
        self.shown: list[Graph] = []

    def embed(
        self, graph: Graph, *, seed: int, device: torch.device, progress: Progress
    ) -> np.ndarray:
        self.shown.append(graph)
        return np.asarray(graph.adjacency @ graph.attributes)


def side_of(task: str) -> TrainingData:
    return training_data(GRAPH, small_split(GRAPH, task))


def test_nodes_end_in_logistic_regression_and_labels_stay_unseen() -> None:
    side, method = side_of("nodes"), Neighbours()
    answer = method.fit(side, "nodes", seed=3, device=CPU, progress=Progress())
    (shown,) = method.shown
    assert shown.labels is None
    assert shown.num_classes == 0
    rows = np.asarray(GRAPH.adjacency @ GRAPH.attributes)
    known, labels = side.labelled, side.labels[side.labelled]
    head = self_train(fit_logistic(rows[known], labels, seed=3), rows, known, labels, seed=3)
    assert isinstance(answer, NodePredictions)
    np.testing.assert_array_equal(answer.probabilities, head.predict_proba(rows, 3))


def test_links_choose_their_scorer_by_links_the_embedding_has_not_seen() -> None:
    side, method = side_of("links"), Neighbours()
    answer = method.fit(side, "links", seed=3, device=CPU, progress=Progress())
    fewer, all_of_them = method.shown
    links = hide_links(side, VALIDATION_LINK_SHARE, 3)
    np.testing.assert_array_equal(fewer.edges, links.graph.edges)
    np.testing.assert_array_equal(all_of_them.edges, side.graph.edges)
    assert fewer.num_edges < all_of_them.num_edges
    smoothed = np.asarray(fewer.adjacency @ GRAPH.attributes)
    rows = np.asarray(side.graph.adjacency @ GRAPH.attributes)
    scorer = fit_chosen(choose_scorer(links, smoothed, 3), side, rows, 3)
    assert isinstance(answer, LinkScores)
    np.testing.assert_array_equal(answer.score(side.negatives), scorer.score(rows, side.negatives))


# What every self-supervised system must do, whatever it learns from.

GRAPH_SELF_SUPERVISED_SYSTEMS = block_model(
    200, num_classes=3, num_attributes=30, mean_degree=10, homophily=0.95, attribute_signal=1.5
)


SYSTEMS: dict[str, SelfSupervised] = {
    "dgi": DGI(DGISettings(width=32, learning_rate=5e-3, epochs=150)),
    "sugrl": SUGRL(SUGRLSettings(layers=(32, 16), epochs=60)),
    "asp": ASP(ASPSettings(width=16, neighbours=8, far_hops=4, epochs=60)),
    "polygcl": PolyGCL(
        replace(PLAIN, width=32, learning_rate=1e-2, filter_rate=1e-2, epochs=100, dropout=0.2)
    ),
}


each_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)


def rows_of(system: SelfSupervised, graph: Graph, seed: int = 0) -> np.ndarray:
    return system.embed(graph, seed=seed, device=CPU, progress=Progress())


@pytest.mark.slow
def test_none_is_left_out() -> None:
    known = {name for name, kind in METHODS.items() if issubclass(kind, SelfSupervised)}
    assert SYSTEMS.keys() == known


@pytest.mark.slow
@each_system
def test_classes_of_a_planted_graph_are_found(system: SelfSupervised) -> None:
    split = node_split(GRAPH_SELF_SUPERVISED_SYSTEMS, 0.1, seed=3)
    side = training_data(GRAPH_SELF_SUPERVISED_SYSTEMS, split)
    answer = system.fit(side, "nodes", seed=0, device=CPU, progress=Progress())
    assert (
        score_test_side(answer, GRAPH_SELF_SUPERVISED_SYSTEMS, split)["accuracy"] > 0.9
    )  # chance: 0.33


@pytest.mark.slow
@each_system
def test_links_of_a_planted_graph_outscore_non_links(system: SelfSupervised) -> None:
    split = link_split(GRAPH_SELF_SUPERVISED_SYSTEMS, 0.8, seed=3)
    side = training_data(GRAPH_SELF_SUPERVISED_SYSTEMS, split)
    answer = system.fit(side, "links", seed=0, device=CPU, progress=Progress())
    assert (
        score_test_side(answer, GRAPH_SELF_SUPERVISED_SYSTEMS, split)["auc"] > 0.75
    )  # nobody gets far above 0.8


@pytest.mark.slow
@each_system
def test_the_same_seed_repeats_to_the_byte_and_another_does_not(system: SelfSupervised) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (
        rows_of(system, GRAPH_SELF_SUPERVISED_SYSTEMS, seed) for seed in (5, 5, 6)
    )
    assert first.tobytes() == again.tobytes()
    assert not np.allclose(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.slow
@each_system
def test_lonely_nodes_and_missing_attributes_are_embedded(system: SelfSupervised) -> None:
    away = (GRAPH_SELF_SUPERVISED_SYSTEMS.edges < 20).any(axis=0)
    bare = Graph.from_arrays(None, GRAPH_SELF_SUPERVISED_SYSTEMS.edges[:, ~away], num_nodes=202)
    for graph in (bare, GRAPH_SELF_SUPERVISED_SYSTEMS.with_edges(np.zeros((2, 0), np.int64))):
        found = rows_of(system, graph)
        assert len(found) == graph.num_nodes
        assert np.isfinite(found).all()


@pytest.mark.slow
@each_system
def test_a_class_with_one_label_is_answered(system: SelfSupervised) -> None:
    labels, known = np.full(200, -1), np.array(GRAPH_SELF_SUPERVISED_SYSTEMS.labels)
    for code, count in enumerate((1, 5, 5)):
        labels[np.flatnonzero(known == code)[:count]] = code
    side = TrainingData(GRAPH_SELF_SUPERVISED_SYSTEMS.with_labels(labels))
    answer = system.fit(side, "nodes", seed=0, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    assert answer.probabilities.shape == (200, 3)
    np.testing.assert_allclose(answer.probabilities.sum(axis=1), 1.0)


# The discriminator against plain loops, the stop rule step by step.


def test_the_loss_is_its_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    real = [torch.randn(4, 3, generator=generator) for _ in range(2)]
    fake = [torch.randn(5, 3, generator=generator)]
    summary = torch.randn(3, generator=generator)
    discriminator = Discriminator(3)
    with torch.no_grad():
        discriminator.bias.fill_(0.3)
    weight = discriminator.weight.tolist()
    total = 0.0
    for truth, views in ((True, real), (False, fake)):
        for rows in views:
            for row in rows.tolist():
                score = 0.3
                for a in range(3):
                    for b in range(3):
                        score += row[a] * weight[a][b] * float(summary[b])
                chance = 1 / (1 + math.exp(-score))
                total -= math.log(chance if truth else 1 - chance)
    found = discriminator.loss(real, fake, summary)
    assert found.item() == pytest.approx(total / 13, rel=1e-5)


def test_shuffled_rows_are_the_same_rows() -> None:
    rows = torch.arange(40.0).reshape(20, 2)
    generator = torch.Generator().manual_seed(0)
    first, second = (shuffle_rows(rows, generator) for _ in range(2))
    assert not torch.equal(first, rows)
    assert not torch.equal(first, second)
    assert torch.equal(first[first[:, 0].argsort()], rows)


def test_magnitudes_of_a_row_sum_to_1() -> None:
    graph = small_graph()
    x, edge_index = infomax_inputs(graph, CPU)
    raw = np.asarray(graph.attributes, dtype=np.float64)
    expected = raw / np.maximum(raw.sum(axis=1, keepdims=True), 1)
    np.testing.assert_allclose(x.numpy(), expected, atol=1e-6)
    np.testing.assert_array_equal(edge_index.numpy(), graph.edge_index)


def test_few_words_are_kept_sparse() -> None:
    words = np.eye(50, 60, dtype=np.float32)
    words[0] = 0.0  # a node without words
    graph = Graph.from_arrays(words, np.array([[0, 1], [1, 2]]))
    x, _ = infomax_inputs(graph, CPU)
    assert x.layout == torch.sparse_csr
    np.testing.assert_array_equal(x.to_dense().numpy(), words)


def test_a_graph_without_attributes_gets_some() -> None:
    known = block_model(30, num_classes=2)
    x, _ = infomax_inputs(Graph.from_arrays(None, known.edges, num_nodes=30), CPU)
    np.testing.assert_allclose(x.abs().sum(dim=1).numpy(), 1.0, atol=1e-5)


class Played(nn.Module):
    """Its loss in each epoch is given; its weight counts the steps taken."""

    def __init__(self, losses: list[float]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.losses = iter(losses)

    def loss(self) -> torch.Tensor:
        # The gradient is -1 and the value as played.
        return next(self.losses) - self.weight + self.weight.detach()


def play(losses: list[float], epochs: int, patience: int) -> tuple[Played, list[float], list[int]]:
    network, done = Played(losses), list[int]()
    optimiser = torch.optim.SGD(network.parameters(), lr=1.0)
    seen = train_until_flat(
        network, optimiser, network.loss, epochs=epochs, patience=patience, on_epoch=done.append
    )
    return network, list(seen), done


def test_training_stops_at_patience_with_the_weights_of_the_lowest_loss() -> None:
    losses = [5.0, 4.0, 4.5, 3.0, 3.5, 3.25, 3.0, 1.0]
    network, seen, done = play(losses, epochs=50, patience=3)
    assert seen == losses[:7]  # an equal loss is no new low
    assert network.weight.item() == 3.0  # three steps led to the fourth loss
    assert sum(done) == 50


def test_training_ends_with_the_epochs() -> None:
    network, seen, done = play([5.0, 4.0, 3.0, 2.0], epochs=3, patience=1)
    assert seen == [5.0, 4.0, 3.0]
    assert network.weight.item() == 2.0
    assert done == [1, 1, 1]


def test_a_loss_that_is_no_number_is_said() -> None:
    with pytest.raises(DataError, match=r"became nan in epoch 2\. Lower the learning rate"):
        play([1.0, float("nan")], epochs=5, patience=2)


@pytest.mark.parametrize(("epochs", "patience"), [(0, 1), (1, 0)])
def test_no_epochs_or_patience_are_refused(epochs: int, patience: int) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        play([1.0], epochs, patience)


# Settings that a self-supervised system takes for a graph and a task.


class Scaled(WithTaskSettings[float]):
    """The attributes times a number; remembers the numbers of all of its kind."""

    name: ClassVar[str] = "scaled"
    title: ClassVar[str] = "Scaled"
    used: ClassVar[list[float]] = []

    def settings_for(self, graph: Graph, task: str) -> float:
        assert graph.name == GRAPH.name
        return 2.0 if task == "links" else 3.0

    def embed(
        self, graph: Graph, *, seed: int, device: torch.device, progress: Progress
    ) -> np.ndarray:
        factor = self.settings or self.settings_for(graph, "nodes")
        self.used.append(factor)
        return np.asarray(factor * graph.attributes)


@pytest.mark.parametrize(
    ("method", "task", "expected"),
    [
        (Scaled(), "nodes", [3.0]),
        (Scaled(), "links", [2.0, 2.0]),
        (Scaled(5.0), "links", [5.0, 5.0]),
    ],
)
def test_a_fit_takes_the_settings_of_its_task_unless_some_were_given(
    method: Scaled, task: str, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scaled, "used", [])
    given = method.settings
    side = training_data(GRAPH, small_split(GRAPH, task))
    method.fit(side, task, seed=0, device=CPU, progress=Progress())
    assert method.used == expected
    assert method.settings == given


# Attributes of which few are not 0.


def test_only_attributes_with_few_non_zeros_become_sparse() -> None:
    x = torch.zeros(10, 20)
    x[:9, 0] = torch.arange(1.0, 10.0)
    for form in (sparse_if_few, lighter):
        assert form(x).layout == torch.sparse_csr
        torch.testing.assert_close(form(x).to_dense(), x)
        torch.testing.assert_close(form(x.T).to_dense(), x.T)
    x[9, 0] = 1.0
    for form in (sparse_if_few, lighter):
        assert form(x) is x


def test_only_a_cpu_is_quicker_with_sparse_dropout() -> None:
    x = torch.zeros(10, 20, device="meta")
    assert lighter(x) is x
