"""The networks against dense algebra, the link loss and its draws against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GATConv

from xtcl.baselines.gat import GAT, GATNetwork
from xtcl.baselines.gcn import GCN, OneLayerGCN, TwoLayerGCN
from xtcl.baselines.supervised import (
    LinkNetwork,
    NonLinkSampler,
    PairPerceptron,
    PairScorer,
    Supervised,
    SupervisedSettings,
    link_loss,
    train_supervised,
)
from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import pair_keys
from xtcl.lab.methods.dgcn import DualLinks
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import Progress
from xtcl.tasks.results import LinkScores
from xtcl.tasks.training_data import TrainingData

CPU = torch.device("cpu")
GRAPH = block_model(60, num_classes=3, num_attributes=12, mean_degree=5)
SETTINGS = SupervisedSettings(
    hidden=16, dropout=0.2, learning_rate=0.01, weight_decay=0.0, epochs=60, width=8
)


def dense_normalised_adjacency(graph: Graph) -> np.ndarray:
    looped = graph.adjacency.toarray().astype(np.float64) + np.eye(graph.num_nodes)
    root = np.diag(looped.sum(axis=1) ** -0.5)
    return np.asarray(root @ looped @ root)


def test_gcn_is_its_formula() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    network = TwoLayerGCN(12, 16, 3, dropout=0.9).eval()
    first, second = (w.detach().numpy().astype(np.float64) for w in network.parameters())
    smooth = dense_normalised_adjacency(GRAPH)
    expected = smooth @ np.maximum(smooth @ x.numpy() @ first.T, 0.0) @ second.T
    found = network(x, edge_index).detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_one_layer_of_gcn_is_its_formula() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    network = OneLayerGCN(12, 8, dropout=0.9).eval()
    nn.init.uniform_(network.bias)
    weight, bias = (w.detach().numpy().astype(np.float64) for w in network.parameters())
    expected = dense_normalised_adjacency(GRAPH) @ x.numpy() @ weight.T + bias
    np.testing.assert_allclose(network(x, edge_index).detach().numpy(), expected, atol=1e-6)


def dense_attention(conv: GATConv, h: np.ndarray) -> np.ndarray:
    """One attention layer by loops over heads and nodes."""
    looped = GRAPH.adjacency.toarray().astype(bool) | np.eye(60, dtype=bool)
    weight = conv.lin.weight.detach().double().numpy()
    heads, size = conv.heads, conv.out_channels
    own, other = (a.detach().double().numpy()[0] for a in (conv.att_dst, conv.att_src))
    out = np.zeros((60, heads * size))
    for k in range(heads):
        part = slice(k * size, (k + 1) * size)
        rows = h @ weight[part].T
        for u in range(60):
            near = np.flatnonzero(looped[u])
            score = rows[u] @ own[k] + rows[near] @ other[k]
            share = np.exp(np.where(score > 0, score, 0.2 * score))
            out[u, part] = share / share.sum() @ rows[near]
    if not conv.concat:
        out = out.reshape(60, heads, size).mean(axis=1)
    return np.asarray(out + conv.bias.detach().double().numpy())


def row_norm(h: np.ndarray) -> np.ndarray:
    centred = h - h.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5))


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("heads", [1, 8])
def test_gat_is_its_formula(norm: bool, residual: bool, heads: int) -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    settings = replace(
        SETTINGS, layers=3, norm=norm, residual=residual, attention_dropout=0.9, last_heads=heads
    )
    network = GATNetwork(12, 3, settings).eval()
    expected = x.double().numpy()
    for layer in range(2):
        h = dense_attention(network.inner[layer], expected)
        if residual:
            weight, bias = (w.detach().double().numpy() for w in network.beside[layer].parameters())
            h = h + expected @ weight.T + bias
        h = row_norm(h) if norm else h
        expected = np.where(h > 0, h, np.expm1(h))
    expected = dense_attention(network.last, expected)
    assert [conv.heads for conv in (*network.inner, network.last)] == [8, 8, heads]
    np.testing.assert_allclose(network(x, edge_index).detach().numpy(), expected, atol=1e-5)


def test_dropout_of_attention_is_part_of_the_settings() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    network = GATNetwork(12, 3, replace(SETTINGS, dropout=0.0)).train()
    assert torch.equal(network(x, edge_index), network(x, edge_index))
    network = GATNetwork(12, 3, replace(SETTINGS, dropout=0.0, attention_dropout=0.5)).train()
    assert not torch.allclose(network(x, edge_index), network(x, edge_index))


def test_gat_attends_to_neighbours_and_itself_only() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    network = GATNetwork(12, 3, replace(SETTINGS, dropout=0.9)).eval()
    before = network(x, edge_index)
    changed = x.clone()
    changed[0] += 1.0
    moved = (network(changed, edge_index) - before).abs().sum(dim=1).detach().numpy() > 1e-6
    reach = np.linalg.matrix_power(dense_normalised_adjacency(GRAPH), 2)[0] > 0
    np.testing.assert_array_equal(moved, reach)


def test_dropout_is_off_after_training() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    networks: list[nn.Module] = []

    def make() -> nn.Module:
        networks.append(TwoLayerGCN(12, 16, 3, dropout=0.5))
        return networks[-1]

    found, _ = train_supervised(
        make, x, edge_index, lambda z, _: z.square().mean(), SETTINGS, seed=0
    )
    torch.testing.assert_close(found, networks[0].eval()(x, edge_index))
    assert not found.requires_grad


@pytest.mark.parametrize(
    "make", [lambda: TwoLayerGCN(12, 16, 8, 0.2), lambda: GATNetwork(12, 8, SETTINGS)]
)
def test_both_losses_fall(make: Callable[[], nn.Module]) -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    classes = torch.from_numpy(np.array(GRAPH.labels))
    links = torch.from_numpy(np.array(GRAPH.edges))
    draws = NonLinkSampler(links, GRAPH.num_nodes)
    for loss_of in (
        lambda z, _: F.cross_entropy(z, classes),
        lambda z, generator: link_loss(z, links, draws.draw(links.shape[1], generator)),
    ):
        _, losses = train_supervised(make, x, edge_index, loss_of, SETTINGS, seed=0)
        assert len(losses) == SETTINGS.epochs
        assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.05


def test_link_loss_is_its_formula() -> None:
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    links, non_links = [(0, 1), (2, 3)], [(0, 2), (1, 4), (5, 3)]
    total = 0.0
    for target, pairs in ((1, links), (0, non_links)):
        for u, v in pairs:
            chance = 1 / (
                1 + math.exp(-sum(float(a) * float(b) for a, b in zip(z[u], z[v], strict=True)))
            )
            total -= math.log(chance if target else 1 - chance)
    found = link_loss(z, torch.tensor(links).T, torch.tensor(non_links).T)
    assert float(found) == pytest.approx(total / 5, rel=1e-5)


def test_draws_are_non_links_of_the_training_graph() -> None:
    links = torch.from_numpy(np.array(GRAPH.edges))
    generator = torch.Generator().manual_seed(0)
    draws = NonLinkSampler(links, GRAPH.num_nodes)
    rounds = [draws.draw(links.shape[1], generator) for _ in range(100)]
    assert all(pairs.shape == links.shape for pairs in rounds)
    drawn = torch.cat(rounds, dim=1).numpy()
    assert (drawn[0] < drawn[1]).all()
    taken = set(pair_keys(GRAPH.edges, 60).tolist())
    keys, counts = np.unique(pair_keys(drawn, 60), return_counts=True)
    assert taken.isdisjoint(keys.tolist())
    # Every one of the 1770 - 150 non-links comes up, about 9.3 times each.
    assert len(keys) == 60 * 59 // 2 - GRAPH.num_edges
    assert counts.max() < 30
    assert not torch.equal(rounds[0], rounds[1])


def test_a_complete_graph_has_no_non_links() -> None:
    pairs = torch.tensor([[0, 0, 1], [1, 2, 2]])
    assert NonLinkSampler(pairs, 3).draw(3, torch.Generator()).shape == (2, 0)


def test_link_scores_are_inner_products() -> None:
    side = TrainingData(GRAPH, np.array([[0], [1]]))
    answer = DualLinks(epochs=2).fit(side, "links", seed=0, device=CPU, progress=Progress())
    assert isinstance(answer, LinkScores)
    nodes = np.arange(60)
    grid = np.stack([np.repeat(nodes, 60), np.tile(nodes, 60)])
    gram = answer.score(grid).reshape(60, 60)
    np.testing.assert_allclose(gram, gram.T)
    assert np.linalg.eigvalsh(gram).min() > -1e-6 * np.trace(gram)


def looped_odds(perceptron: PairPerceptron, product: list[float]) -> float:
    h = product
    for linear in (*perceptron.inner, perceptron.last):
        weights, biases = linear.weight.tolist(), linear.bias.tolist()
        h = [
            sum(w * value for w, value in zip(row, h, strict=True)) + b
            for row, b in zip(weights, biases, strict=True)
        ]
        h = h if linear is perceptron.last else [max(0.0, value) for value in h]
    return h[0]


def test_a_perceptron_scores_products_and_teaches_the_encoder() -> None:
    draw = torch.Generator().manual_seed(0)
    z = torch.randn(6, 4, generator=draw).requires_grad_()
    with torch.random.fork_rng():
        torch.manual_seed(0)  # with other weights no unit may fire
        perceptron = PairPerceptron(4, dropout=0.5).eval()
    links, non_links = torch.tensor([[0, 2], [1, 3]]), torch.tensor([[0], [5]])
    total = 0.0
    for target, (u, v) in ((1, (0, 1)), (1, (2, 3)), (-1, (0, 5))):
        odds = looped_odds(perceptron, (z[u] * z[v]).tolist())
        total += math.log(1 + math.exp(-target * odds)) / 3
    loss = link_loss(z, links, non_links, perceptron)
    assert loss.item() == pytest.approx(total, rel=1e-5)
    assert torch.autograd.grad(loss, z)[0].any()
    assert not torch.equal(perceptron.train()(z), perceptron(z))


def test_answers_of_a_perceptron_have_neither_dropout_nor_an_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xtcl.baselines.supervised.SCORED_AT_ONCE", 4)
    network = LinkNetwork(nn.Identity(), PairPerceptron(4, dropout=0.9))
    z = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    pairs = np.array([[0, 1, 2, 3, 4], [5, 4, 3, 1, 0]])
    assert network.scorer is not None
    expected = [looped_odds(network.scorer, (z[u] * z[v]).tolist()) for u, v in pairs.T]
    score = network.answer(z).score
    np.testing.assert_allclose(score(pairs), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(score(pairs[::-1]), score(pairs))
    assert score(pairs[:, :0]).shape == (0,)


@pytest.mark.parametrize("kind", [GCN, GAT])
def test_the_perceptron_is_trained_with_the_encoder(kind: type[Supervised]) -> None:
    """After one epoch at a rate of 0 and at one above it, only the second has moved the scorer."""
    side = TrainingData(GRAPH, np.array([[0], [1]]))
    pairs = np.array([[0, 1, 2], [3, 4, 5]])

    def scores(rate: float, epochs: int) -> np.ndarray:
        settings = replace(kind.settings["links"], learning_rate=rate, epochs=epochs, least_steps=1)
        method = kind(settings=settings)
        answer = method.fit(side, "links", seed=0, device=CPU, progress=Progress())
        assert isinstance(answer, LinkScores)
        return answer.score(pairs)

    np.testing.assert_array_equal(scores(0.0, 1), scores(0.0, 3))
    assert not np.allclose(scores(0.0, 1), scores(0.01, 3), atol=1e-3)


@pytest.mark.parametrize(
    ("batch", "links", "steps"),
    [(None, 9000, 60), (100, 40, 80), (100, 149, 80), (100, 151, 120), (100, 9000, 5400)],
)
def test_more_links_take_more_steps_and_few_take_enough(
    batch: int | None, links: int, steps: int
) -> None:
    settings = replace(SETTINGS, batch=batch, least_steps=80 if batch else 0)
    assert settings.with_steps(links) == replace(settings, epochs=steps)


@pytest.mark.parametrize("batch", [None, 20, 1000])
def test_a_step_sees_a_batch_of_links_and_as_many_non_links(
    batch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Tensor, Tensor]] = []

    def spy(z: Tensor, links: Tensor, non_links: Tensor, scorer: PairScorer) -> Tensor:
        seen.append((links, non_links))
        return link_loss(z, links, non_links, scorer)

    monkeypatch.setattr("xtcl.baselines.supervised.link_loss", spy)
    side = TrainingData(GRAPH, np.array([[0], [1]]))
    settings = replace(SETTINGS, batch=batch, epochs=10)
    GCN(settings=settings).fit(side, "links", seed=0, device=CPU, progress=Progress())
    size = 20 if batch == 20 else GRAPH.num_edges
    assert {part.shape for both in seen for part in both} == {(2, size)}
    known = pair_keys(GRAPH.edges, 60)
    drawn = np.unique(pair_keys(torch.cat([links for links, _ in seen], dim=1).numpy(), 60))
    assert np.isin(drawn, known).all()
    assert len(drawn) > 0.9 * len(known)
    assert len(seen) == 10 * round(GRAPH.num_edges / 20) if batch == 20 else len(seen) == 10


def test_settings_are_those_given_then_the_graphs_own_then_the_tasks() -> None:
    class Named(GCN):
        published: ClassVar[dict[tuple[str, str], SupervisedSettings]] = {
            ("nodes", "known"): replace(SETTINGS, hidden=24)
        }

    known, other = (replace(GRAPH, name=name) for name in ("known", "other"))
    assert Named().settings_for(known, "nodes").hidden == 24
    assert Named().settings_for(known, "links") == GCN.settings["links"]
    assert Named().settings_for(other, "nodes") == GCN.settings["nodes"]
    assert Named(settings=SETTINGS).settings_for(known, "nodes") == SETTINGS
    shortened = Named(epochs=3).settings_for(known, "nodes")
    assert (shortened.hidden, shortened.epochs) == (24, 3)


def test_gat_has_settings_of_its_own_for_three_graphs() -> None:
    pubmed, computers, photo = (
        GAT().settings_for(replace(GRAPH, name=name), "nodes")
        for name in ("pubmed", "computers", "photo")
    )
    assert (pubmed.learning_rate, pubmed.weight_decay, pubmed.last_heads) == (0.01, 1e-3, 8)
    assert (computers.layers, computers.norm, computers.residual) == (2, True, False)
    assert (photo.layers, photo.norm, photo.residual) == (3, True, True)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_no_epochs_are_refused(task: str) -> None:
    side = TrainingData(GRAPH, np.array([[0], [1]]))
    with pytest.raises(UsageError, match="epochs=0 must be at least 1"):
        GCN(epochs=0).fit(side, task, seed=0, device=CPU, progress=Progress())
