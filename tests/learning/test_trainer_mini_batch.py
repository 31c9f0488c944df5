"""Training in mini-batches: as good as over the whole graph, and repeated to the byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dense_layers import links_of, unit
from small_training import CPU, interrupting, planted, run
from torch import Tensor, nn

from xtcl.config import BatchConfig, TrainingConfig
from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.nn.encoder import encoder_inputs
from xtcl.training.checkpoint import Checkpoints
from xtcl.training.early_stopping import EarlyStopping
from xtcl.training.trainer import embed

TEN = BatchConfig((10, 10))
DEEP: dict[str, object] = {"layers": 2, "hops": 1, "batch_norm": True}
KINDS: dict[str, dict[str, object]] = {
    "gcn": {"hops": 3, "restart": 0.2},
    "gcn deep": DEEP,
    "gat": {"layers": 2, "heads": 2},
}
SETTINGS = TrainingConfig(epochs=23, anchors=20, negatives=16, link_dropout=0.2, batch=TEN)


def accuracy(graph: Graph, rows: np.ndarray) -> float:
    """Of the nearest class mean, on the nodes whose labels it has not seen."""
    assert graph.labels is not None
    known, labels, rows = graph.num_nodes // 4, graph.labels, unit(rows)
    means = [rows[:known][labels[:known] == each].mean(axis=0) for each in range(graph.num_classes)]
    answers = (rows @ np.array(means).T).argmax(axis=1)
    return float((answers == labels)[known:].mean())


@pytest.mark.parametrize(
    ("encoder", "options"),
    [
        ("gcn", {"layers": 3, "hops": 1, "batch_norm": True}),
        ("gat", {"layers": 2, "heads": 2}),
    ],
)
def test_ten_neighbours_of_thirty_are_as_good_as_all(
    encoder: str, options: dict[str, object]
) -> None:
    graph = block_model(400, mean_degree=30, homophily=0.65, attribute_signal=0.5, seed=2)
    settings = TrainingConfig(epochs=20, anchors=100, negatives=64, learning_rate=4e-3)

    def mean(batch: BatchConfig) -> float:
        chosen = replace(settings, batch=batch)
        results = (run(graph, chosen, encoder, options, seed=seed)[1] for seed in range(3))
        return float(np.mean([accuracy(graph, trained.embedding.numpy()) for trained in results]))

    full, mini = mean(BatchConfig()), mean(TEN)
    assert accuracy(graph, np.asarray(graph.attributes)) < 0.4 < full - 0.5
    assert mini > full - 0.03


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("link_dropout", [0.0, 0.3])
def test_one_step_with_all_neighbours_is_the_full_one(kind: str, link_dropout: float) -> None:
    settings = TrainingConfig(epochs=5, anchors=None, negatives=200, link_dropout=link_dropout)
    options = KINDS[kind] | {"dropout": 0.0}
    _, full = run(planted(60), settings, kind[:3], options)
    every = replace(settings, batch=BatchConfig((None, None), block=50))
    _, mini = run(planted(60), every, kind[:3], options)
    np.testing.assert_allclose(mini.losses, full.losses, rtol=1e-5)
    torch.testing.assert_close(mini.embedding, full.embedding, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_repeats_to_the_byte(kind: str) -> None:
    settings = replace(SETTINGS, epochs=3, batch=BatchConfig((2, 2)))

    def result(seed: int) -> tuple[bytes, tuple[float, ...]]:
        torch.rand(seed + 1)
        _, trained = run(planted(80), settings, kind[:3], KINDS[kind], seed=seed)
        return trained.embedding.numpy().tobytes(), trained.losses

    assert result(3) == result(3)
    assert result(3) != result(4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("interrupted_at", [4 * 10, 4 * 10 + 1, 4 * 14 + 3])
def test_an_interrupt_anywhere_changes_nothing(
    kind: str, interrupted_at: int, tmp_path: Path
) -> None:
    graph, settings = planted(80), replace(SETTINGS, batch=BatchConfig((3, 2)))
    options, kept = KINDS[kind], Checkpoints(tmp_path)
    whole_module, whole = run(graph, settings, kind[:3], options, seed=5)
    cut = interrupting(interrupted_at)
    with pytest.raises(KeyboardInterrupt):
        run(graph, settings, kind[:3], options, seed=5, checkpoints=kept, loss=cut)
    module, resumed = run(graph, settings, kind[:3], options, seed=5, checkpoints=kept)
    assert resumed.losses == whole.losses
    assert resumed.embedding.numpy().tobytes() == whole.embedding.numpy().tobytes()
    states = (each.state_dict().values() for each in (module, whole_module))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(*states, strict=True))


class Own(nn.Module):
    """A linear map that keeps a record of how many nodes it is shown."""

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, 4)
        self.shown: list[tuple[bool, int]] = []

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.shown.append((self.training, len(x)))
        h: Tensor = self.linear(x)
        return h


def test_a_module_of_the_user_s_own_trains_on_subgraphs() -> None:
    graph = block_model(400, mean_degree=3, seed=1)
    settings = TrainingConfig(epochs=2, anchors=10, negatives=5, batch=BatchConfig((2,)))
    module, trained = run(graph, settings, Own(graph.num_attributes))
    assert isinstance(module, Own)
    shown = [size for training, size in module.shown if training]
    assert len(shown) == 80
    assert max(shown) <= 3 * (10 + 3 * 10 + 5)
    assert [size for training, size in module.shown if not training] == [400]
    x, edge_index = encoder_inputs(graph, CPU)
    assert torch.equal(trained.embedding, embed(module, x, edge_index))


def test_early_stopping_sees_layer_wise_embeddings() -> None:
    shown: list[Tensor] = []

    def scorer(embedding: Tensor) -> float:
        shown.append(embedding)
        return float(len(shown))

    settings = replace(SETTINGS, epochs=4, batch=BatchConfig((3,), block=16))
    module, trained = run(
        planted(40), settings, "gcn", DEEP, early_stopping=EarlyStopping(scorer, every=2)
    )
    assert trained.embedding is shown[-1]
    x, edge_index = encoder_inputs(planted(40), CPU)
    torch.testing.assert_close(shown[-1], embed(module, x, edge_index))


def test_isolated_nodes_are_embedded_too() -> None:
    graph = planted(40)
    lonely = Graph.from_arrays(graph.attributes, graph.edges[:, :5], graph.labels)
    assert (torch.bincount(links_of(lonely)[0], minlength=40) == 0).any()
    for kind, options in KINDS.items():
        _, trained = run(lonely, replace(SETTINGS, epochs=2), kind[:3], options)
        assert torch.isfinite(trained.embedding).all()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (BatchConfig((10, 0)), r"neighbours=\(10, 0\) must be at least 1 each"),
        (BatchConfig((-1,)), r"neighbours=\(-1,\) must be at least 1 each"),
        (BatchConfig((1,), block=0), "block=0 must be at least 1"),
        (BatchConfig(()), r"neighbours=\(\) has 0 entries and the encoder looks 1 links far"),
    ],
)
def test_settings_that_cannot_be_used(batch: BatchConfig, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(planted(30), replace(SETTINGS, batch=batch), "gcn", DEEP)
