"""The network and its loss against plain loops, and what DGI finds in planted graphs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from small_runs import Recorder

from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.lab.methods.dgi import DGI, DGI_SETTINGS, DGISettings, InfomaxNetwork
from xtcl.lab.methods.self_supervised import train_until_flat
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import Progress
from xtcl.training.trainer import seeded

CPU = torch.device("cpu")
SETTINGS = DGISettings(width=32, learning_rate=5e-3, epochs=150)
GRAPH = block_model(
    200, num_classes=3, num_attributes=30, mean_degree=10, homophily=0.95, attribute_signal=1.5
)


def rows_of(graph: Graph, seed: int = 0, settings: DGISettings = SETTINGS) -> np.ndarray:
    return DGI(settings).embed(graph, seed=seed, device=CPU, progress=Progress())


def test_the_loss_is_its_formula() -> None:
    graph = block_model(12, num_classes=2, num_attributes=5, mean_degree=3)
    x, edge_index = encoder_inputs(graph, CPU)
    network = InfomaxNetwork(5, 4)
    with torch.no_grad():
        for parameter in (network.bias, network.discriminator.bias):
            parameter.add_(0.1)
    found = network.loss(x, edge_index, torch.Generator().manual_seed(7)).item()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(7)).tolist()

    looped = graph.adjacency.toarray() + np.eye(12)
    degree = looped.sum(axis=1)
    weight, bias, slope, bilinear, offset = (
        parameter.detach().double().numpy()
        for parameter in (
            network.weight,
            network.bias,
            network.activation.weight,
            network.discriminator.weight,
            network.discriminator.bias,
        )
    )

    def encoded(attributes: np.ndarray) -> list[np.ndarray]:
        rows = []
        for u in range(12):
            row = bias.copy()
            for v in range(12):
                row += looped[u, v] / math.sqrt(degree[u] * degree[v]) * (attributes[v] @ weight)
            rows.append(np.where(row > 0, row, slope * row))
        return rows

    known = x.double().numpy()
    real, fake = encoded(known), encoded(known[order])
    summary = 1 / (1 + np.exp(-sum(real) / 12))
    total = 0.0
    for u in range(12):
        for row, sign in ((real[u], 1), (fake[u], -1)):
            score = row @ bilinear @ summary + offset
            total += math.log1p(math.exp(-sign * score))
    assert found == pytest.approx(total / 24, rel=1e-5)
    np.testing.assert_allclose(network(x, edge_index).detach().numpy(), real, atol=1e-6)


def test_sparse_attributes_are_the_same_attributes() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    network = InfomaxNetwork(30, 8)
    gradients = []
    for given in (x, x.to_sparse_csr()):
        network.zero_grad()
        torch.autograd.backward(network.loss(given, edge_index, torch.Generator().manual_seed(0)))
        assert network.weight.grad is not None
        gradients.append(network.weight.grad.clone())
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-7)


def test_settings_go_by_the_name_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"pubmed": DGISettings(width=256)} == DGI_SETTINGS
    monkeypatch.setitem(DGI_SETTINGS, "mine", DGISettings(width=6, epochs=1))
    named = Graph.from_arrays(GRAPH.attributes, GRAPH.edges, name="mine")
    found = DGI().embed(named, seed=0, device=CPU, progress=Progress())
    assert found.shape == (200, 6)


def test_training_learns_to_tell_the_graph_from_shuffled_ones() -> None:
    x, edge_index = encoder_inputs(GRAPH, CPU)
    with seeded(0, CPU) as generator:
        network = InfomaxNetwork(30, 32)
        losses = train_until_flat(
            network,
            torch.optim.Adam(network.parameters(), lr=5e-3),
            lambda: network.loss(x, edge_index, generator),
            epochs=150,
            patience=20,
        )
    assert losses[0] > 0.6  # a guess has 0.69
    assert min(losses) < 0.3


def test_progress_reaches_its_end_when_training_stops_early() -> None:
    progress = Recorder()
    DGI(DGISettings(width=4, epochs=400, patience=1)).embed(
        GRAPH, seed=0, device=CPU, progress=progress
    )
    ((name, steps, done),) = progress.stages
    assert (name, steps, sum(done)) == ("training DGI", 400, 400)
    assert len(done) < 400
