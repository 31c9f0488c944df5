"""The training loop: that it learns, repeats, and leaves no trace."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_training import CPU, SHORT, interrupting, planted, run
from strategies import make_graph
from torch import Tensor, nn

from xtcl.config import BatchConfig, TrainingConfig
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.nn import encoder_factory
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.loss import contrastive_loss
from xtcl.sampling.positives import PositiveLists
from xtcl.training import trainer
from xtcl.training.checkpoint import Checkpoints
from xtcl.training.early_stopping import EarlyStopping
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


# Epochs of several steps: every node is an anchor once, and an interrupt changes nothing.


@pytest.mark.parametrize(
    ("num_nodes", "anchors", "expected"),
    [
        (2708, 4096, 1),
        (6143, 4096, 1),
        (6145, 4096, 2),
        (7650, 4096, 2),
        (13752, 4096, 3),
        (19717, 4096, 5),
        (1_000_000, 4096, 244),
        (1_000_000, None, 1),
        (1, 4096, 1),
        (1, 1, 1),
        (9, 2, 4),
        (7, 1, 7),
    ],
)
def test_how_many_steps(num_nodes: int, anchors: int | None, expected: int) -> None:
    assert TrainingConfig(anchors=anchors).steps_per_epoch(num_nodes) == expected


@given(num_nodes=st.integers(1, 10**6), anchors=st.integers(1, 10**5))
def test_steps_are_of_about_that_many_anchors(num_nodes: int, anchors: int) -> None:
    steps = TrainingConfig(anchors=anchors).steps_per_epoch(num_nodes)
    assert steps == 1 or 2 / 3 * anchors <= num_nodes / steps <= 1.5 * anchors
    assert abs(num_nodes / anchors - steps) <= 0.5 or steps == 1


class Seen:
    """The loss, with a record of what it is given in every step."""

    def __init__(self) -> None:
        self.anchors: list[list[int]] = []
        self.positives: list[Tensor] = []
        self.negatives: list[Tensor] = []
        self.losses: list[float] = []

    def __call__(self, z: Tensor, positives: Tensor, negatives: Tensor, **options: Any) -> Tensor:
        loss = contrastive_loss(z, positives, negatives, **options)
        self.anchors.append(options["anchors"].tolist())
        self.positives.append(positives)
        self.negatives.append(negatives)
        self.losses.append(loss.item())
        return loss


@pytest.mark.parametrize("anchors", [1, 2, 7, 12, 16, 29, 31, None])
def test_every_node_is_an_anchor_once_an_epoch(anchors: int | None) -> None:
    seen, settings = Seen(), TrainingConfig(epochs=3, anchors=anchors, negatives=8)
    _, trained = run(planted(31), settings, loss=seen)
    steps = settings.steps_per_epoch(31)
    assert len(seen.anchors) == 3 * steps
    epochs = [seen.anchors[first : first + steps] for first in range(0, 3 * steps, steps)]
    for epoch in epochs:
        assert sorted(chain(*epoch)) == list(range(31))
        sizes = [len(step) for step in epoch]
        assert max(sizes) - min(sizes) <= 1
    if steps > 1:
        assert epochs[0] != epochs[1] != epochs[2]  # dealt out anew
    means = [np.mean(seen.losses[first : first + steps]) for first in range(0, 3 * steps, steps)]
    np.testing.assert_allclose(trained.losses, means, rtol=1e-6)


@pytest.mark.parametrize(("anchors", "sizes"), [(4, [4, 4, 4]), (5, [6, 6]), (None, [12])])
def test_a_large_graph_draws_the_anchors_of_an_epoch(anchors: int | None, sizes: list[int]) -> None:
    seen = Seen()
    settings = TrainingConfig(epochs=30, anchors=anchors, epoch_anchors=12, negatives=8)
    run(planted(31), settings, loss=seen)
    steps = len(sizes)
    assert (settings.steps_per_epoch(31), settings.anchors_per_step(31)) == (steps, sizes[0])
    epochs = [seen.anchors[first : first + steps] for first in range(0, 30 * steps, steps)]
    for epoch in epochs:
        assert [len(step) for step in epoch] == sizes
        assert len(set(chain(*epoch))) == 12
    assert set(chain(*chain(*epochs))) == set(range(31))  # all of them, sooner or later


def test_a_graph_of_fewer_nodes_than_an_epoch_may_have_is_trained_as_ever() -> None:
    plain, bounded = (
        run(planted(31), TrainingConfig(epochs=3, anchors=8, epoch_anchors=most))[1].embedding
        for most in (None, 31)
    )
    assert torch.equal(plain, bounded)


def test_a_graph_smaller_than_the_anchors_takes_one_step() -> None:
    seen = Seen()
    settings = [TrainingConfig(epochs=2, anchors=anchors) for anchors in (30, 4096, None)]
    results = [run(planted(30), each, loss=seen) for each in settings]
    assert seen.anchors == [list(range(30))] * 6
    for _, trained in results:  # and however many more anchors there might have been
        assert torch.equal(trained.embedding, results[0][1].embedding)


def test_positives_are_those_of_the_anchors_and_all_is_drawn_anew() -> None:
    graph, seen = planted(40), Seen()
    x, edge_index = encoder_inputs(graph, CPU)
    following = (np.arange(40)[:, None] + [1, 2]) % 40
    sources = [PositiveLists.from_table(following, None), PositiveLists.from_table(following, 1)]
    settings = TrainingConfig(epochs=2, anchors=10, negatives=20)
    make = encoder_factory("gcn", x.shape[1], {"width": 4})
    train(make, x, edge_index, sources, settings, loss=seen)
    assert len(seen.anchors) == 8
    for anchors, positives in zip(seen.anchors, seen.positives, strict=True):
        assert positives[:, :2].tolist() == following[anchors].tolist()
        assert all((p - u) % 40 in (1, 2) for u, p in zip(anchors, positives[:, 2], strict=True))
    assert len({tuple(each.tolist()) for each in seen.negatives}) == 8


SETTINGS = TrainingConfig(epochs=23, anchors=20, negatives=16, link_dropout=0.2)


DEEP: dict[str, object] = {"layers": 2, "hops": 1, "batch_norm": True}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interrupted_at", "resumed_from"),
    [(3, 0), (4 * 10, 0), (4 * 10 + 1, 10), (4 * 14 + 3, 10), (4 * 20 + 1, 20), (4 * 23, 20)],
)
def test_an_interrupt_anywhere_changes_nothing(
    interrupted_at: int, resumed_from: int, tmp_path: Path
) -> None:
    graph = planted(80)
    assert SETTINGS.steps_per_epoch(80) == 4
    whole_module, whole = run(graph, SETTINGS, "gcn", DEEP, seed=5)
    kept, cut = Checkpoints(tmp_path), interrupting(interrupted_at)
    with pytest.raises(KeyboardInterrupt):
        run(graph, SETTINGS, "gcn", DEEP, seed=5, checkpoints=kept, loss=cut)
    torch.rand(3)  # the state that training left behind is not what it goes on from
    epochs: list[int] = []
    module, resumed = run(
        graph,
        SETTINGS,
        "gcn",
        DEEP,
        seed=5,
        checkpoints=kept,
        on_epoch=lambda epoch, _: epochs.append(epoch),
    )
    assert epochs == list(range(max(resumed_from, 1), 24))
    assert resumed.losses == whole.losses
    assert resumed.embedding.numpy().tobytes() == whole.embedding.numpy().tobytes()
    states = (each.state_dict() for each in (module, whole_module))
    for mine, theirs in zip(*(state.items() for state in states), strict=True):
        assert mine[0] == theirs[0]
        assert torch.equal(mine[1], theirs[1])


def test_a_finished_training_is_not_done_again(tmp_path: Path) -> None:
    graph, seen, settings = planted(40), Seen(), replace(SETTINGS, epochs=10)
    _, first = run(graph, settings, checkpoints=Checkpoints(tmp_path))
    _, again = run(graph, settings, checkpoints=Checkpoints(tmp_path), loss=seen)
    assert seen.losses == []
    assert torch.equal(first.embedding, again.embedding)
    assert first.losses == again.losses


def test_only_steps_that_are_surely_alike_are_replayed() -> None:
    class Own(GCNEncoder):
        """Might do anything with its links."""

    class Declared(GCNEncoder):
        same_kernels: ClassVar[bool] = True

    whole = TrainingConfig(link_dropout=0.5)
    batches = TrainingConfig(batch=BatchConfig(neighbours=(5, 5)))
    assert trainer.can_capture(GCNEncoder(3, 4), whole)
    assert not trainer.can_capture(Own(3, 4), whole)
    assert trainer.can_capture(Declared(3, 4), whole)
    assert not trainer.can_capture(GATEncoder(3, 8), whole)
    assert not trainer.can_capture(GCNEncoder(3, 4), batches)


# Training with early stopping.

EARLY_STOPPING_SETTINGS = TrainingConfig(epochs=12, anchors=10, negatives=16)


def best_is(number: int) -> Callable[[Tensor], float]:
    """A scorer who likes the embedding that he is shown as that number best."""
    count = 0

    def scorer(_: Tensor) -> float:
        nonlocal count
        count += 1
        return -float(abs(count - number))

    return scorer


@pytest.mark.parametrize(("best", "trained_for"), [(1, 6), (2, 8), (4, 12), (5, 12), (6, 12)])
@pytest.mark.parametrize("encoder_options", [{}, DEEP])
def test_the_best_embedding_is_returned_and_training_stops(
    best: int, trained_for: int, encoder_options: dict[str, object]
) -> None:
    stopping, epochs = EarlyStopping(best_is(best), every=2, patience=2), []
    _, stopped = run(
        planted(30),
        EARLY_STOPPING_SETTINGS,
        encoder_options=encoder_options,
        early_stopping=stopping,
        on_epoch=lambda epoch, _: epochs.append(epoch),
    )
    assert epochs == list(range(1, trained_for + 1))
    assert len(stopped.losses) == trained_for
    assert stopping.best_epoch == 2 * best
    assert stopped.embedding is stopping.embedding
    # As good as training for that long in the first place: early stopping changes nothing.
    short = TrainingConfig(epochs=2 * best, anchors=10, negatives=16)
    _, alone = run(planted(30), short, encoder_options=encoder_options)
    assert alone.embedding.numpy().tobytes() == stopped.embedding.numpy().tobytes()
    assert alone.losses == stopped.losses[: 2 * best]


def test_the_scorer_sees_embeddings_without_dropout_or_gradient() -> None:
    shown: list[Tensor] = []

    def scorer(embedding: Tensor) -> float:
        shown.append(embedding)
        return 0.0

    module, _ = run(
        planted(30),
        EARLY_STOPPING_SETTINGS,
        early_stopping=EarlyStopping(scorer, every=4, patience=3),
    )
    assert [tuple(each.shape) for each in shown] == [(30, 16)] * 3
    assert not any(each.requires_grad for each in shown)
    for epochs, each in zip((4, 8, 12), shown, strict=True):
        _, alone = run(planted(30), TrainingConfig(epochs=epochs, anchors=10, negatives=16))
        assert torch.equal(alone.embedding, each)
    assert not module.training


@pytest.mark.parametrize(
    "stopping",
    [
        EarlyStopping(best_is(1), every=13),
        EarlyStopping(lambda _: float("nan"), every=2, patience=99),
    ],
    ids=["never scored", "never a number"],
)
def test_without_a_score_the_last_embedding_is_returned(stopping: EarlyStopping) -> None:
    _, stopped = run(planted(30), EARLY_STOPPING_SETTINGS, early_stopping=stopping)
    _, alone = run(planted(30), EARLY_STOPPING_SETTINGS)
    assert stopping.best_epoch == 0
    assert torch.equal(stopped.embedding, alone.embedding)


def test_a_best_embedding_that_overflowed_is_refused() -> None:
    def scorer(embedding: Tensor) -> float:
        embedding[0, 0] = float("inf")
        return 1.0

    with pytest.raises(DataError, match=r"The embedding overflowed in epoch 12\. Lower learning"):
        run(
            planted(30),
            EARLY_STOPPING_SETTINGS,
            early_stopping=EarlyStopping(scorer, every=2, patience=99),
        )
