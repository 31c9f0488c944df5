"""What the encoder gets to see of a graph."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from strategies import graphs, make_graph
from torch import Tensor

from xtcl.graph.graph import Graph
from xtcl.nn.encoder import RANDOM_FEATURES, encoder_inputs

CPU = torch.device("cpu")
WITH_ATTRIBUTES = ("zeros", "counts", "signed", "some zero rows")


def attributes_seen(graph: Graph) -> Tensor:
    return encoder_inputs(graph, CPU)[0]


@given(graph=graphs(attributes=WITH_ATTRIBUTES))
def test_rows_of_unit_length(graph: Graph) -> None:
    given_rows = np.asarray(graph.attributes, dtype=np.float64)
    for row, seen in zip(given_rows, attributes_seen(graph).numpy(), strict=True):
        length = np.sqrt((row**2).sum())
        np.testing.assert_allclose(seen, row / length if length > 0 else row, atol=1e-6)


@given(graph=graphs())
def test_links_in_both_directions(graph: Graph) -> None:
    _, edge_index = encoder_inputs(graph, CPU)
    pairs = [tuple(pair) for pair in edge_index.T.tolist()]
    once = [tuple(pair) for pair in graph.edges.T.tolist()]
    assert sorted(pairs) == sorted(once + [(v, u) for u, v in once])
    assert edge_index.dtype == torch.int64


@given(graph=graphs(attributes=WITH_ATTRIBUTES))
def test_sparse_and_dense_agree(graph: Graph) -> None:
    sparse = Graph.from_arrays(
        attributes=sp.csr_array(np.asarray(graph.attributes)), edges=graph.edges
    )
    assert sp.issparse(sparse.attributes)
    assert torch.equal(attributes_seen(sparse), attributes_seen(graph))


def test_without_attributes_the_features_are_random_but_fixed() -> None:
    graph = make_graph(200, 0, "random", "none")
    torch.manual_seed(1)
    first = attributes_seen(graph)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    again = attributes_seen(graph)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    assert first.shape == (200, RANDOM_FEATURES)
    torch.testing.assert_close(first.norm(dim=1), torch.ones(200))
    # Rows of different nodes are as good as orthogonal: 6 standard deviations of 1 / sqrt(256).
    assert (first @ first.T - torch.eye(200)).abs().max() < 6 / 16


@pytest.mark.parametrize("attributes", ["counts", "none"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_graph_cannot_be_changed_through_what_is_seen(attributes: str, sparse: bool) -> None:
    graph = make_graph(12, 0, "random", attributes)
    if sparse and graph.has_attributes:
        graph = Graph.from_arrays(
            attributes=sp.csr_array(np.asarray(graph.attributes)), edges=graph.edges
        )
    before = graph.fingerprint()
    x, edge_index = encoder_inputs(graph, CPU)
    x.fill_(7.0)
    edge_index.fill_(0)
    copy = Graph(attributes=graph.attributes, edges=graph.edges)
    assert copy.fingerprint() == before
    assert not (graph.edge_index == 0).all()
