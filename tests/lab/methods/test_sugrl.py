"""SUGRL: its loss and its draws against loops, and what it learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_runs import Recorder
from torch import Tensor

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import node_split
from xtcl.lab.methods.sugrl import (
    SUGRL,
    SUGRL_SETTINGS,
    Perceptron,
    SUGRLSettings,
    Surroundings,
    sugrl_loss,
)
from xtcl.progress import Progress
from xtcl.relations.sparse import quiet_sparse
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.training_data import training_data

CPU = torch.device("cpu")
SMALL = SUGRLSettings(layers=(32, 16), epochs=60)
GRAPH = block_model(
    200, num_classes=3, num_attributes=30, mean_degree=10, homophily=0.95, attribute_signal=1.5
)


def embedded(graph: Graph, settings: SUGRLSettings = SMALL, seed: int = 0) -> np.ndarray:
    return SUGRL(settings).embed(graph, seed=seed, device=CPU, progress=Progress())


def loss_by_loops(
    anchors: Tensor, smoothed: Tensor, drawn: Tensor, orders: Tensor, settings: SUGRLSettings
) -> Tensor:
    """Every term of the formula by itself."""

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return ((x - y) ** 2).sum().sqrt()

    m, gap = settings.margin, settings.gap
    nearer, beyond = torch.zeros((), dtype=anchors.dtype), torch.zeros((), dtype=anchors.dtype)
    for order in orders.tolist():
        for i, h in enumerate(anchors):
            far = distance(h, anchors[order[i]])
            for positive in (smoothed, drawn):
                nearer = nearer + (distance(h, positive[i]) - far + m).clamp(min=0) / len(anchors)
            bound = distance(h.detach(), smoothed[i].detach()) + m + gap
            beyond = beyond + (far - bound).clamp(min=0) / len(orders)
    return settings.pull * nearer + settings.hold * beyond


def test_loss_and_gradient_are_those_of_the_formula() -> None:
    generator = torch.Generator().manual_seed(1)
    parts = torch.randn(3, 9, 4, generator=generator, dtype=torch.float64).requires_grad_()
    h, p, q = parts
    orders = torch.stack([torch.arange(9).roll(shift) for shift in (1, 4)])
    settings = SUGRLSettings(pull=3.0, hold=0.7, margin=0.8, gap=0.3)
    value = sugrl_loss(h, p, q, orders, settings)
    expected = loss_by_loops(h, p, q, orders, settings)
    torch.testing.assert_close(value, expected)
    found, wanted = (torch.autograd.grad(loss, parts) for loss in (value, expected))
    torch.testing.assert_close(found, wanted)


def test_both_parts_of_the_loss_are_at_work() -> None:
    h, p, q = torch.randn(3, 9, 4, generator=torch.Generator().manual_seed(1))
    orders = torch.arange(9).roll(1)[None]
    settings = SUGRLSettings(margin=0.8, gap=0.3)
    whole = sugrl_loss(h, p, q, orders, settings)
    for less in (replace(settings, pull=0.0), replace(settings, hold=0.0)):
        assert sugrl_loss(h, p, q, orders, less) < whole - 0.1


def test_a_node_that_is_its_own_negative_and_positive_has_a_finite_gradient() -> None:
    h = torch.randn(4, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(sugrl_loss(h, h, h, torch.arange(4)[None], SMALL), h)
    assert gradient.isfinite().all()


def test_drawn_neighbours_are_neighbours_or_the_node_itself_all_alike() -> None:
    edges = np.array([[0, 0, 0, 1], [1, 2, 3, 2]])
    graph = Graph.from_arrays(None, edges, num_nodes=6)  # 4 and 5 stand alone, at the end
    surroundings = Surroundings(torch.from_numpy(np.array(graph.edge_index)), 6)
    drawn = surroundings.draw(6000, torch.Generator().manual_seed(0))
    assert drawn.shape == (6, 6000)
    choices = {0: [0, 1, 2, 3], 1: [0, 1, 2], 2: [0, 1, 2], 3: [0, 3], 4: [4], 5: [5]}
    for node, allowed in choices.items():
        shares = torch.bincount(drawn[node], minlength=6) / 6000
        assert shares.nonzero().flatten().tolist() == allowed
        torch.testing.assert_close(
            shares[allowed], torch.full((len(allowed),), 1 / len(allowed)), atol=0.03, rtol=0
        )


def test_the_perceptron_is_the_same_for_sparse_and_dense_attributes() -> None:
    torch.manual_seed(0)
    network = Perceptron(20, (8, 5), dropout=0.5).eval()
    x = torch.rand(30, 20) * (torch.rand(30, 20) < 0.1)
    (second,) = network.further
    by_hand = second((x @ network.weight + network.bias).clamp(min=0))
    torch.testing.assert_close(network(x), by_hand)
    with quiet_sparse():
        torch.testing.assert_close(network(x.to_sparse_csr()), by_hand)
    network.train()
    assert not torch.allclose(network(x), by_hand)


def test_embedding_has_unit_rows_and_the_width_of_the_last_layer() -> None:
    rows = embedded(GRAPH)
    assert rows.shape == (200, 16)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert embedded(GRAPH, replace(SMALL, layers=(8,))).shape == (200, 8)


def test_training_brings_classes_closer_than_random_weights_do() -> None:
    harder = block_model(300, num_attributes=40, mean_degree=5, homophily=0.7, seed=2)
    split = node_split(harder, 0.1, seed=0)

    def accuracy(settings: SUGRLSettings) -> float:
        answer = SUGRL(settings).fit(
            training_data(harder, split), "nodes", seed=0, device=CPU, progress=Progress()
        )
        return score_test_side(answer, harder, split)["accuracy"]

    untrained = replace(SMALL, learning_rate=0.0, epochs=1)
    assert accuracy(replace(SMALL, epochs=150)) > accuracy(untrained) + 0.05


def test_progress_counts_every_epoch() -> None:
    progress = Recorder()
    SUGRL(SMALL).embed(GRAPH, seed=0, device=CPU, progress=progress)
    assert progress.stages == [("training SUGRL", 60, [1] * 60)]


def test_settings_follow_from_the_name_and_the_task() -> None:
    sugrl = SUGRL()
    assert SUGRL_SETTINGS.keys() == {"cora", "citeseer", "pubmed", "photo", "computers"}
    for name, settings in SUGRL_SETTINGS.items():
        named = replace(GRAPH, name=name)
        assert sugrl.settings_for(named, "nodes") == settings
        pull = 200.0 if name == "computers" else settings.pull
        assert sugrl.settings_for(named, "links") == replace(settings, pull=pull)
    assert sugrl.settings_for(GRAPH, "nodes") == SUGRL_SETTINGS["cora"] == SUGRLSettings()


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(UsageError, match="epochs=0 must be at least 1"):
        embedded(GRAPH, replace(SMALL, epochs=0))
    with pytest.raises(DataError, match="SUGRL diverged"):
        embedded(GRAPH, replace(SMALL, learning_rate=1e30, epochs=5))
