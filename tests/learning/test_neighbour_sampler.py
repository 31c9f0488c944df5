"""Neighbour sampling: what is drawn is there, different, fair, and all of it where it may be."""

from __future__ import annotations

from collections import Counter

import torch
from dense_layers import dense_hat, links_of, normal
from hypothesis import given
from hypothesis import strategies as st
from neighbourhoods import draws, hubs
from strategies import graphs
from torch import Tensor

from xtcl.graph.graph import Graph
from xtcl.nn.propagation import Block
from xtcl.training.neighbor_sampling import NeighbourSampler


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
