"""What a step reads: positives and dropped links."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from strategies import graphs

from xtcl.graph.graph import Graph
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.propagation import Propagation, edge_index_of
from xtcl.relations.sparse import CSRGraph
from xtcl.sampling.positives import PositiveLists, draw_positives
from xtcl.training.batch import LinkDropout


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def lists_of(source: PositiveLists) -> list[list[int]]:
    ends = zip(source.start.tolist(), source.start.tolist()[1:], strict=False)
    return [source.members[first:last].tolist() for first, last in ends]


tables = st.tuples(st.integers(1, 12), st.integers(0, 5), st.integers(0, 10**6)).map(
    lambda shape: np.random.default_rng(shape[2]).integers(-1, shape[0], size=shape[:2])
)


@given(table=tables, dtype=st.sampled_from((np.int64, np.int32)))
def test_from_table(table: np.ndarray, dtype: type) -> None:
    source = PositiveLists.from_table(table.astype(dtype), num_per_step=2)
    assert lists_of(source) == [[int(v) for v in row if v != -1] for row in table]
    assert source.start.dtype == source.members.dtype == torch.int64


@given(graph=graphs())
def test_from_links(graph: Graph) -> None:
    source = PositiveLists.from_links(graph.adjacency, num_per_step=2)
    pairs = set(map(tuple, graph.edges.T.tolist()))
    nodes = range(graph.num_nodes)
    neighbours = [[v for v in nodes if (min(u, v), max(u, v)) in pairs] for u in nodes]
    assert lists_of(source) == neighbours
    assert source.start.dtype == source.members.dtype == torch.int64


def test_the_source_shares_no_memory_with_what_it_was_made_of() -> None:
    table = np.array([[1], [0]])
    adjacency = sp.csr_array(np.array([[0, 1], [1, 0]], dtype=np.float32))
    sources = [PositiveLists.from_table(table, 1), PositiveLists.from_links(adjacency, 1)]
    table[:] = -1
    adjacency.indices[:] = 0
    assert [lists_of(source) for source in sources] == [[[1], [0]]] * 2


@given(table=tables, draws=st.integers(0, 6), seed=st.integers(0, 10**6))
def test_draws_only_members(table: np.ndarray, draws: int, seed: int) -> None:
    source = PositiveLists.from_table(table, draws)
    nodes = torch.from_numpy(np.random.default_rng(seed).permutation(len(table))[: len(table) // 2])
    found = source.draw(nodes, seeded(seed))
    assert found.shape == (len(nodes), draws)
    assert found.dtype == torch.int64
    for node, row in zip(nodes.tolist(), found.tolist(), strict=True):
        assert set(row) <= ({int(v) for v in table[node] if v != -1} or {-1})


def test_every_member_is_drawn_as_often() -> None:
    table = np.array([[4, -1, 2, 0, 1, 3, 5], [6, 6, 0, -1, -1, -1, -1], [-1] * 7])
    found = (
        PositiveLists.from_table(table, num_per_step=6000).draw(torch.arange(3), seeded(0)).numpy()
    )
    assert chisquare(np.bincount(found[0], minlength=6)).pvalue > 0.01
    # Twice in the list is drawn twice as often.
    assert chisquare(np.bincount(found[1])[[0, 6]], [2000, 4000]).pvalue > 0.01
    assert (found[2] == -1).all()


def test_draws_are_independent() -> None:
    source = PositiveLists.from_table(np.array([[0, 1], [0, 1]]), num_per_step=8000)
    found = source.draw(torch.arange(2), seeded(0)).numpy()
    joint = np.bincount(2 * found[0] + found[1], minlength=4)
    assert chisquare(joint).pvalue > 0.01


def test_the_generator_decides() -> None:
    torch.manual_seed(5)
    source = PositiveLists.from_table(np.tile(np.arange(50), (50, 1)), num_per_step=3)
    nodes = torch.arange(50)
    first, again, other = (source.draw(nodes, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("chance", "place"), [(0.0, "first"), (1 - 2**-24, "last")])
def test_the_smallest_and_the_largest_chance(
    monkeypatch: pytest.MonkeyPatch, chance: float, place: str
) -> None:
    monkeypatch.setattr(torch, "rand", lambda *size, **_: torch.full(size, chance))
    lengths = torch.arange(1, 400)
    start = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    source = PositiveLists(start, torch.arange(int(start[-1])), num_per_step=1)
    found = source.draw(torch.arange(len(lengths)), seeded(0))[:, 0]
    assert torch.equal(found, start[:-1] if place == "first" else start[1:] - 1)


def test_sources_side_by_side_with_their_weights() -> None:
    table = np.array([[1, 2], [2, -1], [-1, -1]])
    links = sp.csr_array(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=np.float32))
    sources = [
        PositiveLists.from_table(table, num_per_step=2, weight=0.5),
        PositiveLists.from_links(links, num_per_step=3, weight=2),
    ]
    nodes = torch.tensor([2, 0])
    positives, weights = draw_positives(sources, nodes, seeded(3))
    assert positives[0].tolist() == [-1, -1, 0, 0, 0]
    assert set(positives[1, :2].tolist()) <= {1, 2}
    assert positives[1, 2:].tolist() == [2, 2, 2]
    assert weights.tolist() == [[0.5, 0.5, 2.0, 2.0, 2.0]] * 2
    assert weights.is_floating_point()


# Links left out at random, always in both directions.

CPU = torch.device("cpu")


@given(graph=graphs(), share=st.floats(0.01, 0.99), seed=st.integers(0, 10**6))
def test_dropped_links_go_in_both_directions(graph: Graph, share: float, seed: int) -> None:
    edge_index = encoder_inputs(graph, CPU)[1]
    kept = LinkDropout(edge_index, share).draw(torch.Generator().manual_seed(seed))
    before, after = (set(map(tuple, links.T.tolist())) for links in (edge_index, kept))
    assert after <= before
    assert {(v, u) for u, v in after} == after
    assert len(after) == kept.shape[1]


@given(graph=graphs(), share=st.floats(0.01, 0.99), seed=st.integers(0, 10**6))
def test_draws_in_place_leave_the_same_links_out(graph: Graph, share: float, seed: int) -> None:
    x, edge_index = encoder_inputs(graph, CPU)
    shuffled = edge_index[:, torch.randperm(edge_index.shape[1])]
    dropout = LinkDropout(shuffled, share)
    kept = dropout.draw(torch.Generator().manual_seed(seed))
    arcs = dropout.in_place(len(x))(torch.Generator().manual_seed(seed))
    assert isinstance(arcs, CSRGraph)
    assert arcs.column.shape == (edge_index.shape[1],)
    assert sorted(edge_index_of(arcs).T.tolist()) == sorted(kept.T.tolist())
    assert arcs.degree.tolist() == torch.bincount(kept[0], minlength=len(x)).tolist()
    for hops in (1, 2):
        torch.testing.assert_close(Propagation(hops)(x, arcs), Propagation(hops)(x, kept))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_right_share_is_dropped(share: float) -> None:
    ends = torch.arange(10_000)
    edge_index = torch.stack([torch.cat([ends, ends + 10_000]), torch.cat([ends + 10_000, ends])])
    kept = LinkDropout(edge_index, share).draw(torch.Generator().manual_seed(0)).shape[1] / 2
    deviation = (10_000 * share * (1 - share)) ** 0.5
    assert abs(kept - 10_000 * (1 - share)) < 4 * deviation


def test_nothing_to_drop() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    assert LinkDropout(edge_index, 0.0).draw(torch.Generator()) is edge_index
    assert LinkDropout(edge_index, 0.0).in_place(2)(torch.Generator()) is edge_index
    none = torch.empty(2, 0, dtype=torch.int64)
    assert LinkDropout(none, 0.5).draw(torch.Generator()).shape == (2, 0)
