"""The discriminator against plain loops, the stop rule step by step."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_runs import small_graph
from torch import nn

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.lab.methods.self_supervised import (
    Discriminator,
    infomax_inputs,
    shuffle_rows,
    train_until_flat,
)

CPU = torch.device("cpu")


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
