"""CoCoS: its loss against plain loops, its two stages, and what it learns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import Interrupter, Recorder
from torch import Tensor, nn

from xtcl.baselines.supervised import train_supervised
from xtcl.errors import DataError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import node_split
from xtcl.lab.methods import cocos
from xtcl.lab.methods.cocos import (
    CoCoS,
    CoCoSData,
    CoCoSSettings,
    Contexts,
    KnownLabels,
    SharingGCN,
    SharingLoss,
    cocos_contrast,
)
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import Progress
from xtcl.tasks.logistic import stratified_folds
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data
from xtcl.training.trainer import embed

CPU = torch.device("cpu")


SHORT = CoCoSSettings(first_epochs=30, second_epochs=25, contrast=0.6)


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
    settings = replace(SHORT, dropout=0.0)
    labels = training_labels()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = settings.network(30, 3)
    loss = SharingLoss(network, x, edge_index, KnownLabels(labels), 0.7, settings.refresh)
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
    network = SHORT.network(30, 3).train()
    loss = SharingLoss(network, x, edge_index, known, 0.6, 3)
    generator = torch.Generator().manual_seed(0)
    seen = []
    for epoch in range(7):
        with torch.no_grad():  # another network every epoch
            network.second.weight.copy_(network.second.weight.roll(1, dims=0))
        loss(network(x, edge_index), generator)
        assert network.training
        seen.append(loss.all_nodes)
        if epoch % 3 == 0 and epoch:
            expected = known.filled_with(embed(network, x, edge_index))
            network.train()
            assert torch.equal(loss.all_nodes.classes, expected)
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
    gcn, critic = slice(0, 2), slice(2, None)
    assert not any(torch.equal(a, b) for a, b in zip(start[gcn], first[gcn], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(start[critic], first[critic], strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_first_stage_is_plain_supervised_training() -> None:
    still = replace(SHORT, contrast=0.0)
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


def hidden_right(codes: np.ndarray, settings: CoCoSSettings) -> list[int]:
    """Hidden labels that each candidate has right, by whole fits on what is left of the labels."""
    labelled = np.flatnonzero(codes >= 0)
    fold_of = stratified_folds(codes[labelled], settings.folds, 0)
    counts = []
    for contrast in settings.candidates:
        count = 0
        for fold in range(settings.folds):
            hidden = labelled[fold_of == fold]
            rest = codes.copy()
            rest[hidden] = -1
            answer = CoCoS(replace(settings, contrast=contrast)).fit(
                TrainingData(GRAPH.with_labels(rest)),
                "nodes",
                seed=0,
                device=CPU,
                progress=Progress(),
            )
            assert isinstance(answer, NodePredictions)
            count += int(np.sum(answer.predictions[hidden] == codes[hidden]))
        counts.append(count)
    return counts


@pytest.mark.slow
def test_the_weight_with_the_most_hidden_labels_right_is_taken() -> None:
    settings = replace(SHORT, contrast=None, candidates=(0.0, 0.3, 5.0), folds=2)
    counts = hidden_right(training_labels().numpy(), settings)
    best = settings.candidates[int(np.argmax(counts))]
    found = fitted(GRAPH, settings)
    np.testing.assert_array_equal(found, fitted(GRAPH, replace(settings, contrast=best)))


def test_the_second_stage_is_left_out_where_it_does_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(data: CoCoSData, known: KnownLabels, contrasts: list[float], *_: Any, **__: Any):  # type: ignore[no-untyped-def]
        truth = torch.from_numpy(np.array(GRAPH.labels))
        right = nn.functional.one_hot(truth, 3).double()
        return [right.roll(1, dims=1) if contrast else right for contrast in contrasts]

    monkeypatch.setattr(cocos, "train_stages", spoilt)
    found = fitted(GRAPH, replace(SHORT, contrast=None))
    np.testing.assert_array_equal(found.argmax(axis=1), GRAPH.labels)


def test_a_handful_of_labels_choose_nothing() -> None:
    few = node_split(GRAPH, per_class=1, seed=0)
    chosen = fitted(GRAPH, replace(SHORT, contrast=None), split=few)
    np.testing.assert_array_equal(chosen, fitted(GRAPH, split=few))


def test_classes_of_a_planted_graph_are_found() -> None:
    found = fitted(GRAPH)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert score_test_side(NodePredictions(found), GRAPH, SPLIT)["accuracy"] > 0.9  # chance: 0.33


@pytest.mark.slow
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
            for each in (replace(settings, contrast=0.0), settings)
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
    recorder = Recorder()
    settings = replace(SHORT, contrast=None, candidates=(0.0, 0.2, 0.6), folds=2)
    CoCoS(settings).fit(side, "nodes", seed=0, device=CPU, progress=recorder)
    name, steps, done = recorder.stages[0]
    assert (name, steps, sum(done)) == ("choosing the second stage of CoCoS", 160, 160)


# The shuffle and its pairs by brute force, their loss by plain loops, the network by algebra.

GRAPH_CONTEXT_SHUFFLE = block_model(60, num_classes=3, num_attributes=30, mean_degree=5)


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


def looped_score(critic: nn.Sequential, left: list[float], right: list[float]) -> float:
    """The discriminator's chance that a pair is of one context, term by term."""
    layers = [critic[0], critic[2]]
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
    critic: nn.Sequential, z: Tensor, shuffled: Tensor, partner: list[int], other: list[int]
) -> float:
    before, after = z.tolist(), shuffled.tolist()
    n, total = len(before), 0.0
    for i in range(n):
        total -= math.log(looped_score(critic, after[i], before[i])) / (2 * n)
        total -= math.log(looped_score(critic, after[partner[i]], after[i])) / (2 * n)
    for i, j in enumerate(other):
        total -= math.log(1 - looped_score(critic, before[i], before[j])) / n
    return total


@each_estimate
def test_the_contrast_is_its_formula(estimate: list[int]) -> None:
    n, contexts, critic = len(estimate), contexts_of(estimate), discriminator()
    z, shuffled = rows(n, 1), rows(n, 2)
    found = cocos_contrast(critic, z, shuffled, contexts, drawn(7))
    generator = drawn(7)
    partner, other = contexts.shuffle(generator).tolist(), contexts.outside(generator).tolist()
    expected = looped_contrast(critic, z, shuffled, partner, other)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_no_gradient_goes_through_the_other_node_of_a_negative() -> None:
    critic = discriminator()
    contexts = contexts_of(MIXED)
    z, shuffled = rows(len(MIXED), 1).requires_grad_(), rows(len(MIXED), 2)
    torch.autograd.backward(cocos_contrast(critic, z, shuffled, contexts, drawn(7)))
    found = z.grad
    generator = drawn(7)
    contexts.shuffle(generator)
    other = contexts.outside(generator)
    # The same with the other nodes' rows as numbers of their own.
    own = z.detach().clone().requires_grad_()
    fixed = z.detach()[other]
    same = critic(torch.cat([shuffled, own], dim=1))
    apart = critic(torch.cat([own, fixed], dim=1))
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
    looped = GRAPH_CONTEXT_SHUFFLE.adjacency.toarray().astype(np.float64) + np.eye(
        GRAPH_CONTEXT_SHUFFLE.num_nodes
    )
    root = np.diag(looped.sum(axis=1) ** -0.5)
    smooth = root @ looped @ root
    first, second = (
        layer.weight.detach().numpy().astype(np.float64)
        for layer in (network.first, network.second)
    )
    return np.asarray(smooth @ np.maximum(smooth @ x @ first.T, 0.0) @ second.T)


@pytest.mark.parametrize("form", [Tensor.clone, Tensor.to_sparse_csr])
def test_the_network_shuffles_attributes_and_not_links(form: Callable[[Tensor], Tensor]) -> None:
    x, edge_index = encoder_inputs(GRAPH_CONTEXT_SHUFFLE, torch.device("cpu"))
    network = SharingGCN(30, 16, 3, 0.6, 8).eval()
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        plain = network(form(x), edge_index).numpy()
        shuffled = network(form(x), edge_index, order).numpy()
    np.testing.assert_allclose(plain, dense_scores(network, x.numpy()), atol=1e-5)
    np.testing.assert_allclose(shuffled, dense_scores(network, x.numpy()[order]), atol=1e-5)


def test_gradients_through_sparse_attributes_are_those_through_dense_ones() -> None:
    x, edge_index = encoder_inputs(GRAPH_CONTEXT_SHUFFLE, torch.device("cpu"))
    network = SharingGCN(30, 16, 3, 0.0, 8)
    gradients = []
    for form in (x, x.to_sparse_csr()):
        network.zero_grad()
        torch.autograd.backward(network(form, edge_index).square().sum())
        assert network.first.weight.grad is not None
        gradients.append(network.first.weight.grad.clone())
    torch.testing.assert_close(gradients[0], gradients[1])
