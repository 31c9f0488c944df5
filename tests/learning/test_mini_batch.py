"""Mini-batches: with all neighbours, a step is the step of the full graph."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from neighbourhoods import ENCODERS, LAYERED, Two, draws, hubs, made
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from xtcl.errors import UsageError
from xtcl.nn.encoder import LayerwiseEncoder
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.loss import contrastive_loss
from xtcl.nn.propagation import Block
from xtcl.training.batch import Batch, LinkDropout
from xtcl.training.neighbor_sampling import MiniBatch

ALL = (None, None, None)

# Node 39 has no links. Nodes turn up as anchor, positive and negative at once, and twice each.
STEP = Batch(
    torch.tensor([39, 0, 3, 20]),
    torch.tensor([[0, 7, -1], [3, 3, 12], [-1, -1, -1], [20, 39, 0]]),
    torch.tensor([3, 11, 11, 39, 0]),
)


def batch(x: Tensor, links: Tensor, neighbours: tuple[int | None, ...] = ALL) -> MiniBatch:
    return MiniBatch(x, LinkDropout(links, 0.0), neighbours)


def loss_of(z: Tensor, step: Batch) -> Tensor:
    weights = torch.tensor([1.0, 0.3, 0.7]).expand(4, 3)
    return contrastive_loss(
        z, step.positives, step.negatives, anchors=step.anchors, weights=weights
    )


def gradients(encoder: nn.Module, value: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(value, list(encoder.parameters())))


@given(
    anchors=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    positives=st.lists(st.integers(-1, 9), min_size=12, max_size=12),
    negatives=st.lists(st.integers(0, 9), max_size=6),
)
def test_places_stand_for_the_nodes(
    anchors: list[int], positives: list[int], negatives: list[int]
) -> None:
    table = torch.tensor(positives[: 2 * len(anchors)]).reshape(-1, 2)
    step = Batch(torch.tensor(anchors), table, torch.tensor(negatives, dtype=torch.int64))
    nodes, places = step.relabel()
    named = {*anchors, *table.flatten().tolist(), *negatives} - {-1}
    assert nodes.tolist() == sorted(named)
    assert nodes[places.anchors].tolist() == anchors
    assert nodes[places.negatives].tolist() == negatives
    assert torch.where(table >= 0, nodes[places.positives], -1).equal(table)
    assert (places.positives >= 0).equal(table >= 0)


@pytest.mark.parametrize("name", ENCODERS)
def test_with_all_neighbours_the_embedding_is_the_full_one(name: str) -> None:
    (x, links), encoder = hubs(), made(name).eval()
    z, places = batch(x, links).embed(encoder, STEP, draws())
    seeds, _ = STEP.relabel()
    torch.testing.assert_close(z, encoder(x, links)[seeds])
    assert seeds[places.anchors].equal(STEP.anchors)


@pytest.mark.parametrize("name", ENCODERS)
def test_with_all_neighbours_loss_and_gradient_are_the_full_ones(name: str) -> None:
    (x, links), encoder = hubs(), made(name)
    encoder.train(name != "batch norm")  # its statistics are those of the nodes it sees
    full = loss_of(encoder(x, links), STEP)
    mini = loss_of(*batch(x, links).embed(encoder, STEP, draws()))
    torch.testing.assert_close(mini, full)
    for mine, theirs in zip(gradients(encoder, mini), gradients(encoder, full), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_batch_norm_in_training_where_a_step_names_all_nodes() -> None:
    (x, links), encoder = hubs(), made("batch norm").train()
    step = STEP._replace(negatives=torch.arange(40))
    full = loss_of(encoder(x, links), step)
    mini = loss_of(*batch(x, links).embed(encoder, step, draws()))
    torch.testing.assert_close(mini, full)
    for mine, theirs in zip(gradients(encoder, mini), gradients(encoder, full), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("name", LAYERED)
def test_only_what_a_step_needs_is_computed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (x, links), encoder = hubs(), made(name)
    assert isinstance(encoder, LayerwiseEncoder)
    sizes: list[int] = []
    layer = type(encoder).layer

    def spy(self: LayerwiseEncoder, number: int, h: Tensor, links: Block) -> Tensor:
        sizes.append(len(h))
        return layer(self, number, h, links)

    monkeypatch.setattr(type(encoder), "layer", spy)
    step = STEP._replace(positives=torch.full((4, 1), -1), negatives=torch.tensor([39]))
    batch(x, links, (1, 1)).embed(encoder, step, draws())
    assert max(sizes) <= 4 * 2**encoder.num_hops
    assert sizes == sorted(sizes, reverse=True)


def test_a_linear_encoder_needs_no_neighbours() -> None:
    (x, links), encoder = hubs(), made("pagerank")
    z, _ = batch(x, links, ()).embed(encoder, STEP, draws())
    torch.testing.assert_close(z, encoder(x, links)[STEP.relabel()[0]])


@pytest.mark.parametrize("encoder", [GCNEncoder(5, 4, layers=4), Two(SAGEConv, 4)])
def test_too_few_numbers_of_neighbours(encoder: nn.Module) -> None:
    mini, hops = batch(*hubs(), (10, 10)), encoder.num_hops
    with pytest.raises(UsageError, match=rf"neighbours=\(10, 10\) has 2 .* looks {hops} links"):
        mini.embed(encoder, STEP, draws())


def test_a_module_of_unknown_reach_gets_as_many_hops_as_there_are_numbers() -> None:
    (x, links), encoder = hubs(), Two(SAGEConv, None).double()
    z, _ = batch(x, links, (None, None)).embed(encoder, STEP, draws())
    torch.testing.assert_close(z, encoder(x, links)[STEP.relabel()[0]])


def test_links_left_out_stay_away_for_an_epoch() -> None:
    x, links = hubs()
    mini, encoder = MiniBatch(x, LinkDropout(links, 0.5), ALL), made("two layers")
    seen = []
    for epoch in range(2):
        mini.next_epoch(draws(epoch))
        for _ in range(2):
            mini.next_step(draws(9))
            seen.append(mini.links)
            z, _ = mini.embed(encoder, STEP, draws())
            torch.testing.assert_close(z, encoder(x, mini.links)[STEP.relabel()[0]])
    assert seen[0] is seen[1]
    assert seen[2] is seen[3]
    assert seen[0].shape != seen[2].shape or not seen[0].equal(seen[2])
