"""A split that holds nothing back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import graphs

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, full_split


def pair_set(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(int(u), int(v)) for u, v in pairs.T}


@given(graphs(), st.integers(0, 5))
def test_every_labelled_node_trains(graph: Graph, seed: int) -> None:
    split = full_split(graph, "nodes", seed)
    assert isinstance(split, NodeSplit)
    labels = np.full(graph.num_nodes, -1) if graph.labels is None else graph.labels
    assert split.train.tolist() == [node for node, label in enumerate(labels) if label >= 0]
    assert split.test.size == 0
    assert split.seed == seed


@given(graphs(), st.integers(0, 5))
def test_every_link_trains_with_as_many_non_links_as_there_are(graph: Graph, seed: int) -> None:
    links = pair_set(graph.edges)
    possible = graph.num_nodes * (graph.num_nodes - 1) // 2
    if len(links) < 2 or possible - len(links) < 2:
        with pytest.raises(DataError, match="at least two of each"):
            full_split(graph, "links", seed)
        return
    split = full_split(graph, "links", seed)
    assert isinstance(split, LinkSplit)
    assert pair_set(split.train) == links
    non_links = pair_set(split.train_negatives)
    assert not non_links & links
    assert len(non_links) == split.train_negatives.shape[1]
    assert len(non_links) == min(len(links), possible - len(links))
    assert split.test.shape == split.test_negatives.shape == (2, 0)
    assert split.num_nodes == graph.num_nodes


def test_the_seed_draws_the_non_links() -> None:
    graph = block_model(60)
    splits = [full_split(graph, "links", seed).fingerprint() for seed in (0, 0, 1)]
    assert splits[0] == splits[1] != splits[2]
    with pytest.raises(UsageError, match="seed must be a whole number from 0 on"):
        full_split(graph, "links", -1)
