"""Mini-batches: sampled neighbours, and what is trained from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dense_layers import dense_hat, links_of, normal, unit
from hypothesis import given
from hypothesis import strategies as st
from neighbourhoods import ENCODERS, LAYERED, Two, draws, hubs, joined, made
from small_training import CPU, interrupting, planted, run
from strategies import graphs
from torch import Tensor, nn
from torch_geometric.nn import SAGEConv

from xtcl.config import BatchConfig, TrainingConfig
from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.nn.encoder import LayerwiseEncoder, encoder_inputs
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.loss import contrastive_loss
from xtcl.nn.propagation import Block
from xtcl.training.batch import Batch, LinkDropout
from xtcl.training.checkpoint import Checkpoints
from xtcl.training.early_stopping import EarlyStopping
from xtcl.training.neighbor_sampling import MiniBatch, NeighbourSampler, layer_wise
from xtcl.training.trainer import embed


def drawn(block: Block) -> dict[int, list[int]]:
    """The sampled neighbours of every target, under their names in the graph."""
    found: dict[int, list[int]] = {int(u): [] for u in block.nodes[: block.count]}
    for source, target in block.nodes[block.edge_index].T.tolist():
        found[target].append(source)
    return found


def neighbours(edge_index: Tensor, node: int) -> list[int]:
    return edge_index[1, edge_index[0] == node].tolist()


def some(count: int, seed: int) -> Tensor:
    """Different nodes in no order."""
    order = torch.randperm(count, generator=draws(seed))
    return order[: max(1, count // 2)]


@given(graph=graphs(), seed=st.integers(0, 99), most=st.none() | st.integers(0, 6))
def test_a_hop_draws_different_neighbours_and_as_many_as_it_may(
    graph: Graph, seed: int, most: int | None
) -> None:
    links, seeds = links_of(graph), some(graph.num_nodes, seed)
    sampler = NeighbourSampler(links, graph.num_nodes)
    block = sampler.hop(seeds, most, draws(seed))
    assert block.nodes[: block.count].tolist() == seeds.tolist()
    assert len(set(block.nodes.tolist())) == len(block.nodes)
    assert (block.edge_index[1].diff() >= 0).all()
    for node, found in drawn(block).items():
        all_of_them = neighbours(links, node)
        assert set(found) <= set(all_of_them)
        assert len(found) == len(set(found)) == min(len(all_of_them), most or 99 * (most is None))
    degrees = [len(neighbours(links, int(node))) for node in block.nodes]
    assert block.degree.tolist() == degrees  # of the graph, not of the block


def test_every_set_of_neighbours_is_equally_likely() -> None:
    star = torch.tensor([[0] * 5 + [1, 2, 3, 4, 5], [1, 2, 3, 4, 5] + [0] * 5])
    sampler, generator = NeighbourSampler(star, 6), draws()
    seen = Counter(
        tuple(sorted(drawn(sampler.hop(torch.tensor([0]), 3, generator))[0])) for _ in range(2000)
    )
    assert len(seen) == 10
    assert all(140 < times < 260 for times in seen.values())  # 200, and 4.5 times its deviation


def test_the_generator_alone_decides() -> None:
    _, links = hubs()
    sampler, seeds = NeighbourSampler(links, 40), torch.tensor([0, 12, 39])

    def result(seed: int) -> list[list[int]]:
        torch.rand(seed)
        blocks = sampler.blocks(seeds, (3, 1), draws(seed))
        return [
            part.flatten().tolist() for each in blocks for part in (each.nodes, each.edge_index)
        ]

    assert result(1) == result(1)
    assert result(1) != result(2)
    before = torch.get_rng_state()
    sampler.blocks(seeds, (3, 1), draws())
    assert torch.equal(torch.get_rng_state(), before)


def test_blocks_feed_each_other() -> None:
    _, links = hubs()
    blocks = NeighbourSampler(links, 40).blocks(torch.tensor([5, 0]), (2, 3), draws())
    near, far = blocks
    assert far.nodes[: far.count].tolist() == near.nodes.tolist()
    assert {len(found) for found in drawn(near).values()} <= {1, 2}
    for block in blocks:
        h = normal(len(block.nodes), 3)
        assert block.smooth(h).shape == (block.count, 3)


def test_isolated_seeds_have_no_neighbours() -> None:
    _, links = hubs()
    sampler, seeds = NeighbourSampler(links, 40), torch.tensor([39, 36])
    for most in (None, 4):
        block = sampler.hop(seeds, most, draws())
        assert block.nodes.tolist() == [39, 36]
        assert block.edge_index.shape == (2, 0)
        h = normal(2, 3)
        assert torch.equal(block.smooth(h), h)


def test_unsorted_links_and_loops() -> None:
    links = torch.tensor([[2, 0, 1, 1, 1, 2], [1, 1, 1, 0, 2, 1]])
    block = NeighbourSampler(links, 3).hop(torch.tensor([1, 0]), None)
    assert drawn(block) == {1: [0, 2], 0: [1]}


@given(graph=graphs(), seed=st.integers(0, 99))
def test_smoothing_has_the_degrees_of_the_graph(graph: Graph, seed: int) -> None:
    links, count = links_of(graph), graph.num_nodes
    block = NeighbourSampler(links, count).hop(some(count, seed), None)
    h = normal(count, 3)
    expected = torch.from_numpy(dense_hat(links, count)) @ h
    found = block.smooth(h[block.nodes])
    torch.testing.assert_close(found, expected[block.nodes[: block.count]])


@pytest.mark.slow
def test_smoothing_over_a_sample_is_right_on_average() -> None:
    _, links = hubs()
    h, generator, seeds = normal(40, 2).abs(), draws(), torch.arange(12)
    sampler = NeighbourSampler(links, 40)
    blocks = [sampler.hop(seeds, 2, generator) for _ in range(4000)]
    mean = torch.stack([block.smooth(h[block.nodes]) for block in blocks]).mean(dim=0)
    expected = (torch.from_numpy(dense_hat(links, 40)) @ h)[:12]
    torch.testing.assert_close(mean, expected, rtol=0.05, atol=0)


def test_the_gradient_of_smoothing() -> None:
    _, links = hubs(24)
    block = NeighbourSampler(links, 24).hop(torch.tensor([0, 3, 23]), 2, draws())
    h = normal(len(block.nodes), 2).requires_grad_()
    assert torch.autograd.gradcheck(block.smooth, (h,))


@given(graph=graphs(), seed=st.integers(0, 99), reach=st.integers(0, 3))
def test_a_subgraph_has_all_links_of_all_but_the_last_nodes(
    graph: Graph, seed: int, reach: int
) -> None:
    links, seeds = links_of(graph), some(graph.num_nodes, seed)
    sampler = NeighbourSampler(links, graph.num_nodes)
    nodes, found = sampler.subgraph(seeds, (None,) * reach)
    assert nodes[: len(seeds)].tolist() == seeds.tolist()
    within, near = set(seeds.tolist()), set()
    for _ in range(reach):
        near = set(within)
        within |= {v for u in near for v in neighbours(links, u)}
    assert set(nodes.tolist()) == within
    pairs = [(u, v) for u, v in links.T.tolist() if u in near or v in near]
    assert sorted(map(tuple, nodes[found].T.tolist())) == sorted(pairs)


def test_a_sampled_subgraph_has_every_link_once_in_both_directions() -> None:
    _, links = hubs()
    seeds = torch.tensor([0, 1, 12])
    nodes, found = NeighbourSampler(links, 40).subgraph(seeds, (3, 2), draws())
    pairs = list(map(tuple, nodes[found].T.tolist()))
    assert len(pairs) == len(set(pairs))
    assert {(v, u) for u, v in pairs} == set(pairs) <= set(map(tuple, links.T.tolist()))


# Mini-batches: with all neighbours, a step is the step of the full graph.

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


# Embedding layer by layer: the full pass, whatever the size of a block.


@pytest.mark.parametrize("block", [1, 7, 50, 10**6])
@pytest.mark.parametrize("name", [*ENCODERS, "joined"])
def test_is_the_full_pass(name: str, block: int) -> None:
    (x, links), encoder = hubs(), (joined() if name == "joined" else made(name)).eval()
    with torch.no_grad():
        torch.testing.assert_close(layer_wise(encoder, x, links, block), encoder(x, links))


@pytest.mark.parametrize("name", ["two layers", "gat", "own sage"])
def test_without_links(name: str) -> None:
    (x, _), encoder = hubs(), made(name).eval()
    none = torch.empty(2, 0, dtype=torch.int64)
    with torch.no_grad():
        torch.testing.assert_close(layer_wise(encoder, x, none, 9), encoder(x, none))


@pytest.mark.parametrize("name", ["three layers", "two gat"])
def test_every_row_of_a_layer_is_computed_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (x, links), encoder = hubs(), made(name).eval()
    assert isinstance(encoder, LayerwiseEncoder)
    made_rows: list[tuple[int, int]] = []
    layer = type(encoder).layer

    def spy(self: LayerwiseEncoder, number: int, h: Tensor, links: Block) -> Tensor:
        rows = layer(self, number, h, links)
        made_rows.append((number, len(rows)))
        return rows

    monkeypatch.setattr(type(encoder), "layer", spy)
    with torch.no_grad():
        layer_wise(encoder, x, links, 20)
    for number in range(len(encoder.uses_neighbours)):
        sizes = [rows for at, rows in made_rows if at == number]
        assert sum(sizes) == 40
        assert len(sizes) > 4


def test_a_module_without_num_hops_sees_the_whole_graph() -> None:
    (x, links), encoder = hubs(), Two(SAGEConv, None).double()
    with torch.no_grad():
        layer_wise(encoder, x, links, 10)
    assert encoder.shown == [40]
    encoder.num_hops = 2
    with torch.no_grad():
        layer_wise(encoder, x, links, 10)
    assert max(encoder.shown[1:]) < 40


def test_the_former_name_of_num_hops_works_and_warns() -> None:
    (x, links), encoder = hubs(), Two(SAGEConv, None).double()
    encoder.__dict__["reach"] = 2
    with torch.no_grad(), pytest.warns(DeprecationWarning, match="num_hops"):
        layer_wise(encoder, x, links, 10)
    assert max(encoder.shown) < 40


# Training in mini-batches: as good as over the whole graph, and repeated to the byte.

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


@pytest.mark.slow
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


@pytest.mark.slow
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
