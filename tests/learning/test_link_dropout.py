"""Links left out at random, always in both directions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs

from xtcl.graph.graph import Graph
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.propagation import Propagation, edge_index_of
from xtcl.relations.sparse import CSRGraph
from xtcl.training.batch import LinkDropout

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
