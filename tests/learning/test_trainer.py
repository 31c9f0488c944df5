"""The training loop: that it learns, repeats, and leaves no trace."""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from small_training import CPU, SHORT, planted, run
from strategies import make_graph
from torch import Tensor, nn

from xtcl.config import TrainingConfig
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.nn import encoder_factory
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.loss import contrastive_loss
from xtcl.training.batch import PositiveLists
from xtcl.training.trainer import TrainingResult, embed, seeded, train


class Own(nn.Module):
    """A linear map with dropout that keeps a record of what it is shown."""

    def __init__(self, in_features: int, width: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, width)
        self.seen: list[tuple[bool, Tensor]] = []

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.seen.append((self.training, edge_index))
        h: Tensor = self.linear(nn.functional.dropout(x, 0.3, self.training))
        return h


def closeness(graph: Graph, trained: TrainingResult) -> float:
    """By how much the cosine of linked nodes is above that of any two."""
    z = trained.embedding.numpy()
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    anyone = np.random.default_rng(0).integers(graph.num_nodes, size=(2, 500))
    linked, others = ((z[u] * z[v]).sum(axis=1).mean() for u, v in (graph.edges, anyone))
    return float(linked - others)


def global_states() -> tuple[bytes, str, object]:
    state = torch.get_rng_state().numpy().tobytes()
    return state, repr(np.random.get_state()), random.getstate()  # noqa: NPY002


@pytest.mark.parametrize("encoder", ["gcn", "gat", "own"])
@pytest.mark.parametrize("anchors", [None, 30])
def test_positives_come_closer_and_the_loss_falls(encoder: str, anchors: int | None) -> None:
    graph = planted()
    settings = TrainingConfig(epochs=60, anchors=anchors, learning_rate=1e-2, negatives=64)
    chosen = Own(graph.num_attributes) if encoder == "own" else encoder
    _, trained = run(graph, settings, chosen)
    _, untrained = run(graph, TrainingConfig(epochs=1, learning_rate=1e-12), chosen)
    assert len(trained.losses) == 60
    assert np.mean(trained.losses[-5:]) < 0.97 * np.mean(trained.losses[:5])
    assert closeness(graph, trained) > closeness(graph, untrained) + 0.3


@pytest.mark.parametrize("encoder", ["gcn", "gat", "own"])
@pytest.mark.parametrize(("link_dropout", "anchors"), [(0.0, None), (0.3, None), (0.3, 20)])
def test_the_same_seed_repeats_to_the_byte(
    encoder: str, link_dropout: float, anchors: int | None
) -> None:
    graph = planted()
    settings = TrainingConfig(epochs=4, anchors=anchors, negatives=16, link_dropout=link_dropout)
    given_encoder = Own(graph.num_attributes) if encoder == "own" else encoder

    def result(seed: int) -> tuple[bytes, list[bytes], tuple[float, ...]]:
        torch.manual_seed(len(noise))
        noise.append(torch.rand(3))
        module, trained = run(graph, settings, given_encoder, seed=seed)
        weights = [each.detach().numpy().tobytes() for each in module.parameters()]
        return trained.embedding.numpy().tobytes(), weights, trained.losses

    noise: list[Tensor] = []
    first, again, other = result(3), result(3), result(4)
    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_own_module_is_not_changed() -> None:
    graph = planted(30)
    own = Own(graph.num_attributes)
    before = own.linear.weight.detach().clone()
    module, trained = run(graph, encoder=own)
    assert module is not own
    assert torch.equal(own.linear.weight, before)
    assert own.seen == []
    assert isinstance(module, Own)
    assert not torch.equal(module.linear.weight, before)
    assert trained.embedding.shape == (30, 8)


def fail(epoch: int, loss: float) -> None:
    raise KeyboardInterrupt


class Failing(Own):
    """Fails after it has used the random state."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        super().forward(x, edge_index)
        raise RuntimeError("no more")


class RandomAtRest(Own):
    """Uses the random state even in evaluation."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = super().forward(x, edge_index)
        return h + torch.rand(())


@pytest.mark.parametrize(
    ("kind", "options", "error"),
    [
        (Own, {}, None),
        (RandomAtRest, {}, None),
        (Own, {"on_epoch": fail}, KeyboardInterrupt),
        (Failing, {}, RuntimeError),
    ],
)
def test_global_random_states_stay(
    kind: type[Own], options: dict[str, Any], error: type[BaseException] | None
) -> None:
    graph = planted(30)
    encoder = kind(graph.num_attributes)
    before = global_states()
    if error is None:
        run(graph, encoder=encoder, **options)
    else:
        with pytest.raises(error):
            run(graph, encoder=encoder, **options)
    assert global_states() == before


def test_an_embedding_made_with_chance_repeats_too() -> None:
    graph = planted(30)
    own = RandomAtRest(graph.num_attributes)
    first, again = (run(graph, encoder=own, seed=1)[1].embedding for _ in range(2))
    assert torch.equal(first, again)


def test_seeding_leaves_devices_that_are_not_used_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(seed: int) -> None:
        raise AssertionError("seeded every GPU")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", never)
    with seeded(3, CPU) as generator:
        inside = torch.rand(4), torch.rand(4, generator=generator)
    torch.default_generator.manual_seed(3)
    assert torch.equal(inside[0], torch.rand(4))
    assert torch.equal(inside[0], inside[1])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be at least 1"),
        ({"epochs": float("nan")}, "epochs=nan must be at least 1"),
        ({"negatives": 0}, "negatives=0 must be at least 1"),
        ({"anchors": 0}, "anchors=0 must be at least 1"),
        ({"anchors": -4096}, "anchors=-4096 must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be above 0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan must be above 0"),
        ({"temperature": -1.0}, "temperature=-1.0 must be above 0"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1 must not be below 0"),
        ({"weight_decay": float("nan")}, "weight_decay=nan must not be below 0"),
        ({"link_dropout": 1.0}, r"link_dropout=1.0 must be in \[0, 1\)"),
        ({"link_dropout": -0.1}, r"link_dropout=-0.1 must be in \[0, 1\)"),
        ({"similarity": "dot"}, "similarity='dot' must be 'cosine' or 'inner'"),
    ],
)
def test_settings_that_cannot_be_used(setting: dict[str, Any], message: str) -> None:
    settings = TrainingConfig(**setting)
    with pytest.raises(UsageError, match=message):
        settings.validated()
    with pytest.raises(UsageError, match=message):
        run(planted(30), settings)


@pytest.mark.parametrize("anchors", [None, 1, 10**9])
def test_good_settings_are_given_back(anchors: int | None) -> None:
    settings = TrainingConfig(anchors=anchors)
    assert settings.validated() is settings


class NotANumber(Own):
    """Says NaN in the third pass."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = super().forward(x, edge_index)
        return h * float("nan") if len(self.seen) == 3 else h


def test_a_loss_that_is_no_number() -> None:
    graph, epochs = planted(30), []
    with pytest.raises(DataError, match=r"The loss became nan in epoch 3\. Lower learning_rate"):
        run(
            graph,
            encoder=NotANumber(graph.num_attributes),
            on_epoch=lambda epoch, loss: epochs.append(epoch),
        )
    assert epochs == [1, 2]


class Overflowing(Own):
    """Weights that the last step made too large, as far as anyone can see."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = super().forward(x, edge_index)
        return h if self.training else h * 1e38 * 1e38


def test_an_embedding_that_overflows_after_the_last_step() -> None:
    graph = planted(30)
    with pytest.raises(DataError, match=r"The embedding overflowed in epoch 4\. Lower learning"):
        run(graph, encoder=Overflowing(graph.num_attributes))


def test_every_epoch_is_reported() -> None:
    reports: list[tuple[int, float]] = []
    _, trained = run(planted(30), on_epoch=lambda epoch, loss: reports.append((epoch, loss)))
    assert reports == list(enumerate(trained.losses, start=1))
    assert len(reports) == SHORT.epochs


def test_what_the_loss_is_given() -> None:
    graph, calls = planted(), []

    def spy(z: Tensor, positives: Tensor, negatives: Tensor, **options: Any) -> Tensor:
        calls.append((positives, negatives, options))
        return contrastive_loss(z, positives, negatives, **options)

    x, edge_index = encoder_inputs(graph, CPU)
    table = np.random.default_rng(0).integers(-1, graph.num_nodes, size=(graph.num_nodes, 4))
    sources = [
        PositiveLists.from_table(table, num_per_step=2, weight=0.25),
        PositiveLists.from_links(graph.adjacency, num_per_step=3),
    ]
    settings = TrainingConfig(epochs=30, negatives=50, similarity="inner", temperature=0.9)
    make = encoder_factory("gcn", x.shape[1], {"width": 4})
    train(make, x, edge_index, sources, settings, loss=spy)
    assert len(calls) == 30
    for positives, negatives, options in calls:
        assert positives.shape == (graph.num_nodes, 5)
        assert negatives.shape == (50,)
        assert options["anchors"].tolist() == list(range(graph.num_nodes))
        assert options["similarity"] == "inner"
        assert options["temperature"] == 0.9
        assert options["weights"][7].tolist() == [0.25, 0.25, 1.0, 1.0, 1.0]
    # Fresh ones each epoch, and every node is a negative in its turn: none of 90 is missed by
    # 1500 draws but with a chance of 90 (1 - 1/90)^1500 = 5e-6.
    assert not torch.equal(calls[0][0], calls[1][0])
    assert not torch.equal(calls[0][1], calls[1][1])
    assert set(torch.cat([call[1] for call in calls]).tolist()) == set(range(graph.num_nodes))


def test_links_are_dropped_in_training_and_all_there_at_the_end() -> None:
    graph = planted()
    settings = TrainingConfig(epochs=3, negatives=8, link_dropout=0.5)
    module, _ = run(graph, settings, Own(graph.num_attributes))
    assert isinstance(module, Own)
    assert [training for training, _ in module.seen] == [True, True, True, False]
    counts = [links.shape[1] for _, links in module.seen]
    assert counts[-1] == 2 * graph.num_edges
    assert max(counts[:-1]) < 0.8 * counts[-1]
    assert not torch.equal(module.seen[0][1], module.seen[1][1])


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
@pytest.mark.parametrize("link_dropout", [0.0, 0.3])
def test_the_trained_encoder_holds_no_data(encoder: str, link_dropout: float) -> None:
    graph = planted(30)
    x, edge_index = encoder_inputs(graph, CPU)
    settings = TrainingConfig(epochs=2, negatives=16, link_dropout=link_dropout)
    sources = [PositiveLists.from_links(graph.adjacency, num_per_step=3)]
    make = encoder_factory(encoder, x.shape[1], {"width": 16, "layers": 2, "hops": 1})
    trained = train(make, x, edge_index, sources, settings)
    gone = [weakref.ref(x), weakref.ref(edge_index)]
    del x, edge_index
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    assert trained[1].embedding.shape == (30, 16)


def test_the_embedding_is_the_encoder_at_rest() -> None:
    graph = planted(30)
    module, trained = run(graph)
    assert not trained.embedding.requires_grad
    assert torch.equal(embed(module.train(), *encoder_inputs(graph, CPU)), trained.embedding)
    assert not module.training


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [("isolated", "some zero rows"), ("random", "zeros"), ("random", "none"), ("empty", "counts")],
)
def test_awkward_graphs(encoder: str, shape: str, attributes: str) -> None:
    graph = make_graph(20, 0, shape, attributes)
    _, trained = run(graph, encoder=encoder)
    assert trained.embedding.isfinite().all()
    assert all(loss >= 0 for loss in trained.losses)


def test_one_node_without_attributes_does_not_stop_the_others() -> None:
    """Its first embedding is a row of zeros, whose gradient must not be huge (see unit_rows)."""
    graph = make_graph(20, 0, "cycle", "signed")
    attributes = np.array(graph.attributes)
    bare = Graph.from_arrays(
        np.vstack([attributes, np.zeros_like(attributes[:1])]), graph.edges, num_nodes=21
    )
    settings = TrainingConfig(epochs=30, learning_rate=0.01, negatives=16)
    module, _ = run(bare, settings, "gat")
    bias = dict(module.named_parameters())["convs.0.bias"]
    assert bias.abs().mean() > 0.03  # a tenth of what 30 steps of Adam can do, not one step
