"""CoCoS: its loss against plain loops, its two stages, and what it learns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import Interrupter, Recorder
from torch import Tensor

from xtcl.baselines.supervised import train_supervised
from xtcl.errors import DataError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import node_split
from xtcl.lab.methods import cocos
from xtcl.lab.methods.cocos import (
    CoCoS,
    CoCoSSettings,
    Contexts,
    KnownLabels,
    SharingGCN,
    SharingLoss,
    cocos_contrast,
)
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import Progress
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data
from xtcl.training.trainer import embed

CPU = torch.device("cpu")
SHORT = CoCoSSettings(first_epochs=30, second_epochs=25)
GRAPH = block_model(
    200, num_classes=3, num_attributes=30, mean_degree=10, homophily=0.95, attribute_signal=1.5
)
SPLIT = node_split(GRAPH, 0.2, seed=3)


def fitted(
    graph: Graph, settings: CoCoSSettings = SHORT, seed: int = 0, split: Any = SPLIT
) -> np.ndarray:
    side = training_data(graph, split)
    answer = CoCoS(settings).fit(side, "nodes", seed=seed, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    return answer.probabilities


def training_labels(graph: Graph = GRAPH) -> Tensor:
    return torch.from_numpy(training_data(graph, SPLIT).labels.copy())


def test_known_labels_stand_and_scores_fill_the_rest() -> None:
    known = KnownLabels(torch.tensor([-1, 2, -1, 0]))
    scores = torch.tensor([[0.0, 1.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 3.0], [0.0, 9.0, 0.0]])
    assert known.filled_with(scores).tolist() == [1, 2, 2, 0]
    assert known.unlabelled.tolist() == [0, 2]
    looped = [
        math.log(sum(math.exp(s) for s in row)) - row[label]
        for row, label in ((scores[1].tolist(), 2), (scores[3].tolist(), 0))
    ]
    assert float(known.loss(scores)) == pytest.approx(sum(looped) / 2)


def looped_labels(scores: np.ndarray, labels: np.ndarray) -> float:
    losses = [
        math.log(sum(math.exp(s) for s in scores[node])) - scores[node][label]
        for node, label in enumerate(labels)
        if label >= 0
    ]
    return float(np.mean(losses))


def test_the_loss_of_the_second_stage_is_its_formula() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    settings = replace(SHORT, dropout=0.0, contrast=0.7)
    labels = training_labels()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = settings.network(30, 3)
    loss = SharingLoss(network, x, edge_index, KnownLabels(labels), settings)
    z = network(x, edge_index)
    found = loss(z, torch.Generator().manual_seed(5)).item()

    plain = z.detach().numpy()
    estimate = np.where(labels >= 0, labels, plain.argmax(axis=1))
    assert len(set(estimate)) > 1
    generator = torch.Generator().manual_seed(5)
    order = Contexts(torch.from_numpy(estimate)).shuffle(generator)
    shuffled = embed(network, x[order], edge_index).numpy()
    bare = np.flatnonzero(labels < 0)
    pairs = cocos_contrast(  # itself against plain loops in test_context_shuffle
        network.discriminator,
        torch.from_numpy(plain[bare]),
        torch.from_numpy(shuffled[bare]),
        Contexts(torch.from_numpy(estimate[bare])),
        generator,
    )
    expected = (looped_labels(plain, labels.numpy()) + looped_labels(shuffled, labels.numpy())) / 2
    assert found == pytest.approx(expected + 0.7 * pairs.item(), rel=1e-5)


def test_classes_are_estimated_anew_every_few_epochs_without_dropout() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    known = KnownLabels(training_labels())
    settings = replace(SHORT, refresh=3)
    network = settings.network(30, 3).train()
    loss = SharingLoss(network, x, edge_index, known, settings)
    generator = torch.Generator().manual_seed(0)
    seen = []
    for epoch in range(7):
        with torch.no_grad():  # another network every epoch
            network.second.weight.copy_(network.second.weight.roll(1, dims=0))
        loss(network(x, edge_index), generator)
        assert network.training
        seen.append(loss.everyone)
        if epoch % 3 == 0 and epoch:
            expected = known.filled_with(embed(network, x, edge_index))
            network.train()
            assert torch.equal(loss.everyone.classes, expected)
            assert torch.equal(loss.unlabelled.classes, expected[known.unlabelled])
    assert [seen[i] is seen[i - 1] for i in range(1, 7)] == [True, True, False, True, True, False]


def test_the_second_stage_starts_from_the_weights_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights: list[tuple[Tensor, ...]] = []

    def spy(make: Callable[[], SharingGCN], *arguments: Any, **options: Any) -> Any:
        def noted() -> SharingGCN:
            network = make()
            weights.append(tuple(w.detach().clone() for w in network.parameters()))
            return network

        result = train_supervised(noted, *arguments, **options)
        weights.append(tuple(w.detach().clone() for w in make().parameters()))
        return result

    monkeypatch.setattr(cocos, "train_supervised", spy)
    fitted(GRAPH)
    start, first, second_start, second = weights
    assert all(torch.equal(a, b) for a, b in zip(first, second_start, strict=True))
    gcn, judge = slice(0, 2), slice(2, None)
    assert not any(torch.equal(a, b) for a, b in zip(start[gcn], first[gcn], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(start[judge], first[judge], strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_first_stage_is_plain_supervised_training() -> None:
    still = replace(SHORT, second_rate=0.0, second_epochs=1)
    x, edge_index = encoder_inputs(GRAPH, CPU)
    scores, _ = train_supervised(
        lambda: still.network(30, 3),
        x,
        edge_index,
        lambda z, _: KnownLabels(training_labels()).loss(z),
        still.stage(still.first_rate, still.first_epochs),
        seed=4,
    )
    expected = scores.double().softmax(dim=1).numpy()
    np.testing.assert_allclose(fitted(GRAPH, still, seed=4), expected, atol=1e-6)


def test_classes_of_a_planted_graph_are_found() -> None:
    found = fitted(GRAPH)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert score_test_side(NodePredictions(found), GRAPH, SPLIT)["accuracy"] > 0.9  # chance: 0.33


def test_the_second_stage_helps_where_labels_are_few() -> None:
    """Three labels a class on a noisy graph: sharing contexts must add to what labels give."""
    gains = []
    for seed in range(4):
        graph = block_model(
            300,
            num_classes=3,
            num_attributes=60,
            mean_degree=8,
            homophily=0.7,
            attribute_signal=0.7,
            seed=seed,
        )
        split = node_split(graph, per_class=3, seed=seed)
        settings = replace(SHORT, first_epochs=60, second_epochs=60)
        first, both = (
            score_test_side(NodePredictions(fitted(graph, each, split=split)), graph, split)[
                "accuracy"
            ]
            for each in (replace(settings, second_rate=0.0, second_epochs=1), settings)
        )
        gains.append(both - first)
    assert np.mean(gains) > 0.03  # 0.1 was seen


def test_same_seed_gives_same_bytes_and_another_seed_another_network() -> None:
    wide = block_model(200, num_classes=3, num_attributes=60, attribute_signal=0.0)
    sparse = Graph.from_arrays(
        np.where(np.arange(60) < 5, 1, 0) * np.asarray(wide.attributes), wide.edges, wide.labels
    )
    for graph in (GRAPH, sparse):
        first = fitted(graph, seed=5)
        with torch.random.fork_rng():
            torch.manual_seed(99)
            assert fitted(graph, seed=5).tobytes() == first.tobytes()
        assert not np.allclose(fitted(graph, seed=6), first)


def test_the_global_state_stays_as_it_was() -> None:
    before = torch.random.get_rng_state()
    fitted(GRAPH)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_test_labels_change_nothing() -> None:
    assert GRAPH.labels is not None
    wrong = np.array(GRAPH.labels)
    wrong[SPLIT.test] = np.random.default_rng(0).permutation(wrong[SPLIT.test])
    np.testing.assert_array_equal(fitted(GRAPH.with_labels(wrong)), fitted(GRAPH))


def test_a_graph_without_attributes_is_answered() -> None:
    bare = Graph.from_arrays(None, GRAPH.edges, GRAPH.labels, num_nodes=GRAPH.num_nodes)
    found = fitted(bare, replace(SHORT, first_epochs=80))
    assert score_test_side(NodePredictions(found), bare, SPLIT)["accuracy"] > 0.6


def test_isolated_nodes_single_labels_and_empty_rows_are_answered() -> None:
    assert GRAPH.labels is not None
    edges = np.asarray(GRAPH.edges)
    edges = edges[:, (edges >= 20).all(axis=0)]  # the first twenty have no link
    attributes = np.array(GRAPH.attributes)
    attributes[:5] = 0.0
    graph = Graph.from_arrays(attributes, edges, GRAPH.labels)
    split = node_split(graph, per_class=1, seed=0)
    found = fitted(graph, split=split)
    assert np.isfinite(found).all()
    assert score_test_side(NodePredictions(found), graph, split)["accuracy"] > 0.5


def test_one_class_and_a_graph_labelled_throughout_are_answered() -> None:
    alone = GRAPH.with_labels(np.where(training_labels().numpy() == 0, 0, -1))
    side = TrainingData(alone)
    answer = CoCoS(SHORT).fit(side, "nodes", seed=0, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    assert (answer.predictions == 0).all()
    answer = CoCoS(SHORT).fit(TrainingData(GRAPH), "nodes", seed=0, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    assert np.mean(answer.predictions == GRAPH.labels) > 0.9


def test_nothing_to_learn_from_is_said() -> None:
    for labels, sentence in ((np.full(200, -1), "no known label"), (None, "has no labels")):
        side = TrainingData(replace(GRAPH, labels=labels))
        with pytest.raises(DataError, match=sentence):
            CoCoS().fit(side, "nodes", seed=0, device=CPU, progress=Progress())


def test_progress_counts_every_epoch_and_an_interrupt_ends_the_fit() -> None:
    side, recorder = training_data(GRAPH, SPLIT), Recorder()
    CoCoS(SHORT).fit(side, "nodes", seed=0, device=CPU, progress=recorder)
    ((name, steps, done),) = recorder.stages
    assert (name, steps, sum(done)) == ("training CoCoS", 55, 55)
    with pytest.raises(KeyboardInterrupt):
        CoCoS(SHORT).fit(
            side, "nodes", seed=0, device=CPU, progress=Interrupter("training CoCoS", 1, 40)
        )
