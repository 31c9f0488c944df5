"""Epochs of several steps: every node is an anchor once, and an interrupt changes nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_training import CPU, interrupting, planted, run
from torch import Tensor

from xtcl.config import BatchConfig, TrainingConfig
from xtcl.nn import encoder_factory
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.loss import contrastive_loss
from xtcl.training import trainer
from xtcl.training.batch import PositiveLists
from xtcl.training.checkpoint import Checkpoints
from xtcl.training.trainer import train


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

    whole = TrainingConfig(link_dropout=0.5)
    batches = TrainingConfig(batch=BatchConfig(neighbours=(5, 5)))
    assert trainer.can_capture(GCNEncoder(3, 4), whole)
    assert not trainer.can_capture(Own(3, 4), whole)
    assert not trainer.can_capture(GATEncoder(3, 8), whole)
    assert not trainer.can_capture(GCNEncoder(3, 4), batches)
