"""Overlaps of balls against breadth-first searches in the graph from which the link is removed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs

from xtcl.errors import UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.lab.methods import subgraph as ball_counts
from xtcl.lab.methods.subgraph import ball_overlaps, count_bits, pack, ring_counts

CPU = torch.device("cpu")
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
