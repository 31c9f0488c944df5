"""SubGraph: its network and loss in plain loops, what it may see, and that it learns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_runs import Recorder
from strategies import graphs
from torch import Tensor

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split, node_split
from xtcl.lab.methods import subgraph as ball_counts
from xtcl.lab.methods import subgraph as subgraph_network
from xtcl.lab.methods.subgraph import (
    SUBGRAPH_SETTINGS,
    USUAL,
    PairInputs,
    PairNetwork,
    SubGraph,
    SubGraphSettings,
    ball_overlaps,
    count_bits,
    log_counts,
    log_odds,
    pack,
    ring_counts,
    train_pairs,
)
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.propagation import Propagation
from xtcl.progress import Progress
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.training_data import TrainingData, training_data
from xtcl.training.trainer import seeded

CPU = torch.device("cpu")


SMALL = SubGraphSettings(width=16, epochs=3, least_steps=1)


GRAPH = block_model(
    200, num_classes=3, num_attributes=30, mean_degree=10, homophily=0.95, attribute_signal=1.5
)


SPLIT = link_split(GRAPH, 0.8, seed=3)


PAIRS = np.hstack([SPLIT.test, SPLIT.test_negatives])


def scores(side: TrainingData, settings: SubGraphSettings = SMALL, seed: int = 0) -> np.ndarray:
    answer = SubGraph(settings).fit(side, "links", seed=seed, device=CPU, progress=Progress())
    found = answer.score(PAIRS)
    assert found.shape == PAIRS.shape[1:]
    assert np.isfinite(found).all()
    return found


def inputs_of(graph: Graph, pairs: np.ndarray) -> PairInputs:
    smoothed = Propagation(1)(*encoder_inputs(graph, CPU))
    return PairInputs(torch.from_numpy(pairs.copy()), log_counts(graph, pairs, 2, CPU), smoothed)


def looped_odds(network: PairNetwork, inputs: PairInputs, stored_moments: bool) -> list[float]:
    """The formula of `PairNetwork` number by number, in double precision."""
    values = {name: part.double().tolist() for name, part in network.state_dict().items()}

    def linear(name: str, row: list[float]) -> list[float]:
        weight, bias = values[f"{name}.weight"], values[f"{name}.bias"]
        return [
            b + sum(w * x for w, x in zip(ws, row, strict=True))
            for ws, b in zip(weight, bias, strict=True)
        ]

    def normed(name: str, rows: list[list[float]]) -> list[list[float]]:
        columns = []
        for c, column in enumerate(zip(*rows, strict=True)):
            mean = sum(column) / len(column)
            spread = sum((x - mean) ** 2 for x in column) / len(column)
            if stored_moments:
                mean, spread = (values[f"{name}.running_{what}"][c] for what in ("mean", "var"))
            scale = values[f"{name}.weight"][c] / math.sqrt(spread + 1e-5)
            columns.append(
                [max(0.0, scale * (x - mean) + values[f"{name}.bias"][c]) for x in column]
            )
        return [list(row) for row in zip(*columns, strict=True)]

    products = []
    for u, v in inputs.ends.T.tolist():
        left, right = (linear("inner", inputs.smoothed[end].tolist()) for end in (u, v))
        products.append(linear("outer", [a * b for a, b in zip(left, right, strict=True)]))
    features = normed("outer_norm", products)
    structure = normed("structure_norm", [linear("structure", f) for f in inputs.counts.tolist()])
    return [linear("readout", s + e)[0] for s, e in zip(structure, features, strict=True)]


def cross_entropy(odds: list[float], targets: Tensor) -> float:
    total = 0.0
    for odd, target in zip(odds, targets.tolist(), strict=True):
        chance = 1 / (1 + math.exp(-odd))
        total -= math.log(chance if target else 1 - chance)
    return total / len(odds)


def test_loss_and_network_are_their_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = block_model(30, num_classes=2, num_attributes=6, mean_degree=4)
    split = link_split(graph, seed=0)
    inputs = inputs_of(split.training_graph(graph), np.hstack([split.train, split.train_negatives]))
    targets = (torch.arange(len(inputs)) < split.train.shape[1]).float()
    settings = SubGraphSettings(width=5, dropout=0.0, epochs=4, least_steps=1)
    with seeded(7, CPU):
        fresh = PairNetwork(6, 8, settings)
    network, losses = train_pairs(inputs, targets, settings, seed=7)
    assert len(losses) == 4
    assert losses[0] == pytest.approx(cross_entropy(looped_odds(fresh, inputs, False), targets))
    monkeypatch.setattr(subgraph_network, "SUBGRAPH_PAIRS_AT_ONCE", 7)
    expected = looped_odds(network, inputs, True)
    np.testing.assert_allclose(log_odds(network, inputs).tolist(), expected, atol=1e-5)


def test_loss_falls_over_batches() -> None:
    inputs = inputs_of(GRAPH, np.hstack([SPLIT.train, SPLIT.train_negatives]))
    targets = (torch.arange(len(inputs)) < SPLIT.train.shape[1]).float()
    settings = replace(USUAL, width=32, batch=256, epochs=20, least_steps=1)
    _, losses = train_pairs(inputs, targets, settings, seed=0)
    assert np.mean(losses[-3:]) < losses[0] - 0.2


def test_an_epoch_has_even_batches_and_small_graphs_more_epochs() -> None:
    settings = SubGraphSettings(epochs=10, least_steps=64, batch=1024)
    assert [settings.batches(pairs) for pairs in (2, 1025, 1600, 10_240)] == [1, 1, 2, 10]
    assert [settings.rounds(pairs) for pairs in (2, 3 * 1024, 10_240)] == [64, 22, 10]


def test_pubmed_alone_looks_three_hops_far() -> None:
    assert SUBGRAPH_SETTINGS["pubmed"].hops == 3
    assert USUAL.hops == 2


def test_counts_of_a_training_link_are_those_of_the_graph_without_it() -> None:
    graph = SPLIT.training_graph(GRAPH)
    found = log_counts(graph, graph.edges, 2, CPU)
    for link in range(0, graph.num_edges, 20):
        rest = graph.with_edges(np.delete(graph.edges, link, axis=1))
        assert torch.equal(found[link : link + 1], log_counts(rest, graph.edges[:, [link]], 2, CPU))


def test_answer_is_the_trained_network_on_counts_without_the_pair_itself() -> None:
    side = training_data(GRAPH, SPLIT)
    graph = side.graph
    answer = SubGraph(SMALL).fit(side, "links", seed=4, device=CPU, progress=Progress())
    trained = inputs_of(graph, np.hstack([graph.edges, side.negatives]))
    targets = (torch.arange(len(trained)) < graph.num_edges).float()
    network, _ = train_pairs(trained, targets, SMALL, seed=4)
    expected = []
    for link in (0, 5, 50):
        rest = graph.with_edges(np.delete(graph.edges, link, axis=1))
        counts = log_counts(rest, graph.edges[:, [link]], 2, CPU)
        ends = trained.ends[:, [link]]
        expected.append(log_odds(network, PairInputs(ends, counts, trained.smoothed)).item())
    found = answer.score(graph.edges[:, [0, 5, 50]])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_links_of_a_planted_graph_outscore_non_links() -> None:
    side = training_data(GRAPH, SPLIT)
    answer = SubGraph().fit(side, "links", seed=0, device=CPU, progress=Progress())
    # Links inside a class cannot be told from its non-links: nobody gets far above 0.8 here.
    assert score_test_side(answer, GRAPH, SPLIT)["auc"] > 0.7


def caves(count: int, size: int) -> Graph:
    """Cliques without attributes, each with a quarter of its links missing."""
    rng = np.random.default_rng(0)
    inside = np.stack(np.triu_indices(size, k=1))
    links = np.hstack([inside + cave * size for cave in range(count)])
    kept = links[:, rng.random(links.shape[1]) < 0.75]
    return Graph.from_arrays(None, kept, num_nodes=count * size + 2)  # two nodes are isolated


def test_structure_alone_tells_links_where_it_can() -> None:
    graph = caves(20, 8)
    split = link_split(graph, 0.7, seed=0)
    side = training_data(graph, split)
    answer = SubGraph().fit(side, "links", seed=0, device=CPU, progress=Progress())
    assert score_test_side(answer, graph, split)["auc"] > 0.95
    isolated = np.array([[0, graph.num_nodes - 2, 3], [graph.num_nodes - 1] * 2 + [3]])
    assert np.isfinite(answer.score(isolated)).all()


def test_three_hops_work_too() -> None:
    scores(training_data(GRAPH, SPLIT), replace(SMALL, hops=3))


def test_same_seed_gives_same_bytes_and_leaves_the_global_state() -> None:
    side = training_data(GRAPH, SPLIT)
    settings = replace(SMALL, batch=128)
    before = torch.random.get_rng_state()
    first = scores(side, settings, seed=5)
    assert torch.equal(torch.random.get_rng_state(), before)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        second = scores(side, settings, seed=5)
    assert first.tobytes() == second.tobytes()
    assert not np.allclose(first, scores(side, settings, seed=6))


def test_test_links_change_nothing() -> None:
    other = GRAPH.with_edges(SPLIT.train)
    expected = scores(training_data(GRAPH, SPLIT))
    np.testing.assert_array_equal(scores(training_data(other, SPLIT)), expected)


def test_order_of_ends_changes_nothing() -> None:
    side = training_data(GRAPH, SPLIT)
    answer = SubGraph(SMALL).fit(side, "links", seed=0, device=CPU, progress=Progress())
    np.testing.assert_array_equal(answer.score(PAIRS), answer.score(PAIRS[::-1]))
    assert answer.score(np.zeros((2, 0), np.int64)).shape == (0,)
    with pytest.raises(DataError, match="use node numbers from 0 to 199"):
        answer.score(np.array([[0], [200]]))


def test_one_link_and_one_non_link_are_enough() -> None:
    side = TrainingData(GRAPH.with_edges(SPLIT.train[:, :1]), SPLIT.train_negatives[:, :1])
    scores(side)


def test_training_tells_how_far_it_is() -> None:
    progress = Recorder()
    side = training_data(GRAPH, SPLIT)
    SubGraph(SMALL).fit(side, "links", seed=0, device=CPU, progress=progress)
    assert progress.stages[-1] == ("training SubGraph", 3, [1, 1, 1])


def test_what_cannot_be_answered_is_refused() -> None:
    def fit(side: TrainingData, settings: SubGraphSettings = SMALL) -> None:
        SubGraph(settings).fit(side, "links", seed=0, device=CPU, progress=Progress())

    side = training_data(GRAPH, SPLIT)
    with pytest.raises(UsageError, match="needs a link split"):
        fit(training_data(GRAPH, node_split(GRAPH, 0.2)))
    with pytest.raises(UsageError, match="epochs=0 must be at least 1"):
        fit(side, replace(SMALL, epochs=0))
    nothing = np.zeros((2, 0), np.int64)
    for empty in (
        TrainingData(GRAPH.with_edges(nothing), SPLIT.test),
        replace(side, non_links=nothing),
    ):
        with pytest.raises(DataError, match="no training link or non-link"):
            fit(empty)


# Overlaps of balls against breadth-first searches in the graph from which the link is removed.

FAR = 99


def distances(graph: Graph, start: int, without: tuple[int, int]) -> list[int]:
    """Breadth-first search from `start` in the graph without one link."""
    links = {(int(a), int(b)) for a, b in graph.edges.T} - {(min(without), max(without))}
    found = [FAR] * graph.num_nodes
    found[start] = 0
    frontier = {start}
    while frontier:
        reached = {b for a, b in links if a in frontier} | {a for a, b in links if b in frontier}
        frontier = {x for x in reached if found[x] == FAR}
        for x in frontier:
            found[x] = 1 + min(found[a if b == x else b] for a, b in links if x in (a, b))
    return found


def searched_table(graph: Graph, u: int, v: int, hops: int) -> list[list[int]]:
    """Sizes of all overlaps; the last row and column stand for all nodes."""
    from_u, from_v = (distances(graph, end, (u, v)) for end in (u, v))
    radii = [*range(1, hops + 1), FAR]
    return [
        [sum(a <= i and b <= j for a, b in zip(from_u, from_v, strict=True)) for j in radii]
        for i in radii
    ]


def all_pairs(count: int) -> np.ndarray:
    """Every pair in both orders, and every node with itself."""
    return np.stack(np.divmod(np.arange(count * count), count))


def agree(graph: Graph, pairs: np.ndarray, hops: int) -> None:
    found = ball_overlaps(graph, pairs, hops, CPU)
    assert found.dtype == torch.int64
    assert found.shape == (pairs.shape[1], hops + 1, hops + 1)
    found[:, -1, -1] = graph.num_nodes  # nobody counts the nodes of the graph
    for (u, v), table in zip(pairs.T.tolist(), found.tolist(), strict=True):
        assert table == searched_table(graph, u, v, hops), (u, v)


@given(graph=graphs(max_nodes=9), hops=st.integers(1, 3))
def test_every_pair_of_any_small_graph(graph: Graph, hops: int) -> None:
    agree(graph, all_pairs(graph.num_nodes), hops)


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("length", range(3, 10))
def test_cycles_leave_one_way_around(length: int, hops: int) -> None:
    """Without its link, a pair of a cycle is `length` - 1 links apart: near, just near, too far."""
    nodes = np.arange(length)
    graph = Graph.from_arrays(None, np.stack([nodes, (nodes + 1) % length]))
    agree(graph, all_pairs(length), hops)


@pytest.mark.slow
@pytest.mark.parametrize("hops", [2, 3])
def test_more_nodes_than_a_word_has_bits(hops: int) -> None:
    graph = block_model(150, num_classes=3, num_attributes=2, mean_degree=4)
    some = np.random.default_rng(0).integers(150, size=(2, 60))
    agree(graph, np.hstack([graph.edges[:, ::5], graph.edges[::-1, ::11], some]), hops)


def test_blocks_of_nodes_and_of_pairs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = block_model(200, num_classes=3, num_attributes=2, mean_degree=8)
    pairs = np.hstack([graph.edges, np.random.default_rng(0).integers(200, size=(2, 300))])
    whole = ball_overlaps(graph, pairs, 3, CPU)
    monkeypatch.setattr(ball_counts, "SEARCH_NUMBERS", 1)
    monkeypatch.setattr(ball_counts, "PAIR_WORDS", 7)
    assert torch.equal(ball_overlaps(graph, pairs, 3, CPU), whole)


@pytest.mark.parametrize(("hops", "numbers"), [(1, 3), (2, 8), (3, 15)])
def test_rings_are_counts_of_distances(hops: int, numbers: int) -> None:
    graph = block_model(40, num_classes=2, num_attributes=2, mean_degree=3)
    pairs = np.hstack([graph.edges, np.random.default_rng(1).integers(40, size=(2, 40))])
    found = ring_counts(ball_overlaps(graph, pairs, hops, CPU))
    assert found.shape == (pairs.shape[1], numbers)
    for (u, v), counts in zip(pairs.T.tolist(), found.tolist(), strict=True):
        rings = np.zeros((hops + 1, hops + 1), dtype=int)
        sides = (distances(graph, end, (u, v)) for end in (u, v))
        for a, b in zip(*sides, strict=True):
            rings[min(max(a, 1), hops + 1) - 1, min(max(b, 1), hops + 1) - 1] += 1
        couples = [
            max(rings[i, j], rings[j, i]) if i <= j else min(rings[i, j], rings[j, i])
            for i in range(hops + 1)
            for j in range(hops + 1)
        ]
        assert counts == couples[:-1], (u, v)


def test_rings_of_a_path_by_hand() -> None:
    """0-1-2-3-4: without the link 1-2, 0 and 1 are near 1 alone, and 2, 3 and 4 near 2 alone."""
    path = Graph.from_arrays(None, np.array([[0, 1, 2, 3], [1, 2, 3, 4]]))
    found = ring_counts(ball_overlaps(path, np.array([[1, 1], [2, 3]]), 2, CPU))
    #      (1,1) (1,2) (1,out) (2,1) (2,2) (2,out) (out,1) (out,2)
    assert found[0].tolist() == [0, 0, 2, 0, 0, 1, 2, 0]
    # The pair 1-3 is no link: 2 is next to both, 1 and 3 are two from the other, 0 and 4 too far.
    assert found[1].tolist() == [1, 1, 1, 1, 0, 0, 1, 0]


def test_a_pair_has_no_first_end() -> None:
    graph = block_model(60, num_classes=2, num_attributes=2, mean_degree=5)
    pairs = all_pairs(60)
    found = [ring_counts(ball_overlaps(graph, ends, 2, CPU)) for ends in (pairs, pairs[::-1])]
    assert torch.equal(*found)


def test_words_hold_what_is_packed() -> None:
    bits = torch.rand(9, 192, generator=torch.Generator().manual_seed(0)) < 0.5
    bits[0], bits[1] = False, True
    words = pack(bits)
    assert words.shape == (9, 3)
    assert count_bits(words).tolist() == bits.sum(dim=1).tolist()
    assert count_bits(words[2:5] & words[5:8]).tolist() == (bits[2:5] & bits[5:8]).sum(1).tolist()


def test_no_pairs_and_no_links() -> None:
    graph = Graph.from_arrays(np.eye(3), np.zeros((2, 0), np.int64))
    assert ball_overlaps(graph, np.zeros((2, 0), np.int64), 2, CPU).shape == (0, 3, 3)
    agree(graph, all_pairs(3), 2)


@pytest.mark.parametrize("hops", [0, 4])
def test_other_hops_are_refused(hops: int) -> None:
    graph = block_model(20, num_classes=2, num_attributes=2)
    with pytest.raises(UsageError, match=f"hops={hops} must be from 1 to 3"):
        ball_overlaps(graph, np.array([[0], [1]]), hops, CPU)
