"""link_split: against plain sets on hostile graphs, uniform negatives, seeds, refusals."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, check_no_leak, link_split
from xtcl.graph.validation import IntArray


@st.composite
def hostile_graphs(draw: st.DrawFn) -> Graph:
    """Directed input with duplicates, reversals and loops, from empty to complete."""
    n = draw(st.integers(2, 14))
    kind = draw(st.sampled_from(["any", "star", "complete", "almost complete"]))
    if kind == "any":
        node = st.integers(0, n - 1)
        pairs = draw(st.lists(st.tuples(node, node), max_size=60))
        pairs += [
            (v, u) for u, v in draw(st.lists(st.sampled_from(pairs)) if pairs else st.just([]))
        ]
    elif kind == "star":
        pairs = [(0, v) for v in range(1, n)]
    else:
        pairs = [(u, v) for u in range(n) for v in range(n) if u != v]
        if kind == "almost complete":
            missing = draw(st.lists(st.sampled_from(pairs), max_size=4))
            pairs = [(u, v) for u, v in pairs if (u, v) not in missing and (v, u) not in missing]
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Graph.from_arrays(np.ones((n, 1)), edges)


def as_set(pairs: IntArray) -> set[frozenset[int]]:
    found = {frozenset(pair) for pair in pairs.T.tolist()}
    assert len(found) == pairs.shape[1], "a pair is there twice"
    assert all(len(pair) == 2 for pair in found), "a pair is a loop"
    return found


@given(hostile_graphs(), st.floats(0.05, 0.95), st.integers(0, 2**32))
def test_hostile_graphs(graph: Graph, train: float, seed: int) -> None:
    links, n = as_set(graph.edges), graph.num_nodes
    non_links = n * (n - 1) // 2 - len(links)
    count = round(train * len(links))
    if len(links) < 2 or non_links < 2 or not 0 < count < len(links):
        with pytest.raises(DataError):
            link_split(graph, train, seed=seed)
        return
    split = link_split(graph, train, seed=seed)
    check_no_leak(graph, split)
    training, test = as_set(split.train), as_set(split.test)
    negatives = as_set(split.train_negatives), as_set(split.test_negatives)
    assert len(training) == count
    assert not training & test
    assert training | test == links
    assert not negatives[0] & negatives[1]
    assert not (negatives[0] | negatives[1]) & links
    if non_links >= len(links):
        assert [len(side) for side in negatives] == [len(training), len(test)]
    else:
        assert sum(map(len, negatives)) == non_links
        assert len(negatives[0]) == pytest.approx(non_links * count / len(links), abs=1)
        assert all(negatives)
    assert as_set(split.training_graph(graph).edges) == training


@pytest.mark.parametrize(("num_nodes", "lists_all"), [(7, True), (30, False)])
def test_negatives_are_uniform_over_the_non_links(num_nodes: int, lists_all: bool) -> None:
    path = np.stack([np.arange(5), np.arange(1, 6)])
    graph = Graph.from_arrays(edges=path, num_nodes=num_nodes)
    pairs = num_nodes * (num_nodes - 1) // 2
    assert (pairs <= 8 * 10) == lists_all, "this size no longer tests the branch it should"
    for side in ("train_negatives", "test_negatives"):
        counts: Counter[tuple[int, int]] = Counter()
        for seed in range(3000):
            counts.update(zip(*getattr(link_split(graph, seed=seed), side).tolist(), strict=True))
        assert len(counts) == pairs - 5
        assert stats.chisquare(list(counts.values())).pvalue > 0.001


def test_direction_and_duplicates_of_the_input_do_not_matter() -> None:
    graph = block_model(80)
    rng = np.random.default_rng(0)
    messy = np.concatenate([graph.edges, graph.edges[::-1], graph.edges[:, ::3]], axis=1)
    messy = messy[:, rng.permutation(messy.shape[1])]
    again = graph.with_edges(messy)
    assert link_split(again, seed=2).fingerprint() == link_split(graph, seed=2).fingerprint()


def test_cora_sixty_forty() -> None:
    graph = load_dataset("cora")
    split = link_split(graph)
    assert split.train.shape == split.train_negatives.shape == (2, 3167)
    assert split.test.shape == split.test_negatives.shape == (2, 2111)
    training = split.training_graph(graph)
    assert training.num_nodes == graph.num_nodes
    assert training.labels is graph.labels
    assert link_split(graph, seed=1).fingerprint() != split.fingerprint()


def test_json_there_and_back() -> None:
    split = link_split(block_model(30), seed=4)
    back = LinkSplit.from_json(json.loads(json.dumps(split.to_json())))
    assert back.fingerprint() == split.fingerprint()
    assert (back.seed, back.num_nodes, back.kind) == (4, 30, "links")
    with pytest.raises(DataError, match="needs"):
        LinkSplit.from_json({"kind": "links", "train": []})


def test_sides_are_canonical_and_read_only() -> None:
    pair = np.array([[3, 1], [0, 2]])
    split = LinkSplit(pair, pair, pair, pair, num_nodes=4, seed=0)
    assert split.train.tolist() == [[0, 1], [3, 2]]
    with pytest.raises(ValueError, match="read-only"):
        split.train[0, 0] = 2
    with pytest.raises(DataError, match=r"shape \[2, n\]"):
        LinkSplit(pair[:1], pair, pair, pair, num_nodes=4, seed=0)


def test_refusals() -> None:
    with pytest.raises(DataError, match=r"1 link\(s\); a link split needs at least 2"):
        link_split(Graph.from_arrays(edges=[[0], [1]]))
    complete = Graph.from_arrays(edges=np.stack(np.triu_indices(5, k=1)))
    with pytest.raises(DataError, match="complete or nearly so: 0 of its pairs"):
        link_split(complete)
    with pytest.raises(UsageError, match="between 0 and 1"):
        link_split(block_model(30), 1.0)
    with pytest.raises(DataError, match="leaves no test links"):
        link_split(Graph.from_arrays(edges=[[0, 1], [1, 2]], num_nodes=9), 0.9)
    with pytest.raises(DataError, match="use the graph it was made from"):
        link_split(block_model(30)).training_graph(block_model(31))
