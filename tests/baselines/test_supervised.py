"""The networks against dense algebra, the link loss and its draws against plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from xtcl.baselines.gat import TwoLayerGAT
from xtcl.baselines.gcn import GCN, TwoLayerGCN
from xtcl.baselines.link_loss import NonLinks, link_loss
from xtcl.baselines.supervised import SupervisedSettings, train_supervised
from xtcl.errors import UsageError
from xtcl.graph.datasets import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import pair_keys
from xtcl.learning.inputs import encoder_inputs
from xtcl.progress import Progress
from xtcl.tasks.answers import LinkAnswer
from xtcl.tasks.training_side import TrainingSide

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


def test_gat_attends_to_neighbours_and_itself_only() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    network = TwoLayerGAT(12, 16, 3, dropout=0.9).eval()
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


@pytest.mark.parametrize("network", [TwoLayerGCN, TwoLayerGAT])
def test_both_losses_fall(network: Callable[..., nn.Module]) -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    classes = torch.from_numpy(np.array(GRAPH.labels))
    links = torch.from_numpy(np.array(GRAPH.edges))
    draws = NonLinks(links, GRAPH.num_nodes)
    for loss_of in (
        lambda z, _: F.cross_entropy(z, classes),
        lambda z, generator: link_loss(z, links, draws.draw(links.shape[1], generator)),
    ):
        _, losses = train_supervised(
            lambda: network(12, 16, 8, 0.2), x, edge_index, loss_of, SETTINGS, seed=0
        )
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
    draws = NonLinks(links, GRAPH.num_nodes)
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
    assert NonLinks(pairs, 3).draw(3, torch.Generator()).shape == (2, 0)


def test_link_scores_are_inner_products() -> None:
    side = TrainingSide(GRAPH, np.array([[0], [1]]))
    answer = GCN(epochs=2).fit(side, "links", seed=0, device=CPU, progress=Progress())
    assert isinstance(answer, LinkAnswer)
    nodes = np.arange(60)
    grid = np.stack([np.repeat(nodes, 60), np.tile(nodes, 60)])
    gram = answer.score(grid).reshape(60, 60)
    np.testing.assert_allclose(gram, gram.T)
    assert np.linalg.eigvalsh(gram).min() > -1e-6 * np.trace(gram)


def test_no_epochs_are_refused() -> None:
    with pytest.raises(UsageError, match="epochs=0 must be at least 1"):
        GCN(epochs=0).fit(TrainingSide(GRAPH), "nodes", seed=0, device=CPU, progress=Progress())
