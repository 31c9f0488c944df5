"""node_split: sizes, coverage of classes, seeds, refusals."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from strategies import graphs

from xtcl.errors import DataError, UsageError, XTCLError
from xtcl.graph.datasets.formats import quiet_pyg
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import (
    LinkSplit,
    NodeSplit,
    check_no_leak,
    full_split,
    link_split,
    node_split,
)
from xtcl.graph.validation import IntArray


def labelled(labels: list[int]) -> Graph:
    return Graph.from_arrays(
        edges=[[0], [1]], labels=np.array(labels), classes=tuple("abcdef"), name="toy"
    )


def of_class(graph: Graph, nodes: IntArray, label: int) -> int:
    assert graph.labels is not None
    return int((graph.labels[nodes] == label).sum())


@given(
    st.lists(st.integers(-1, 5), min_size=2, max_size=40),
    st.floats(0.01, 0.99),
    st.integers(0, 2**32),
)
def test_ratio_on_hostile_labels(labels: list[int], train: float, seed: int) -> None:
    graph = labelled(labels)
    known = [node for node, label in enumerate(labels) if label >= 0]
    count = round(train * len(known))
    if len(known) < 2 or not 0 < count < len(known):
        with pytest.raises(DataError):
            node_split(graph, train, seed=seed)
        return
    split = node_split(graph, train, seed=seed)
    check_no_leak(graph, split)
    assert split.train.size == count
    assert sorted([*split.train.tolist(), *split.test.tolist()]) == known
    covered = len({labels[node] for node in split.train.tolist()})
    assert covered == min(count, len({labels[node] for node in known}))


@given(st.lists(st.integers(-1, 5), min_size=2, max_size=40), st.integers(1, 8), st.integers(0, 99))
def test_per_class_on_hostile_labels(labels: list[int], per_class: int, seed: int) -> None:
    graph = labelled(labels)
    sizes = [labels.count(label) for label in range(6)]
    if max(sizes) < 2:
        with pytest.raises(DataError):
            node_split(graph, per_class=per_class, seed=seed)
        return
    split = node_split(graph, per_class=per_class, seed=seed)
    check_no_leak(graph, split)
    for label, size in enumerate(sizes):
        expected = min(per_class, size - 1) if size > 1 else size
        assert of_class(graph, split.train, label) == expected
        assert of_class(graph, split.test, label) == size - expected


def test_plain_random_where_every_class_is_covered() -> None:
    graph = block_model(200, num_classes=2)
    order = np.random.default_rng(7).permutation(200)
    assert node_split(graph, 0.25, seed=7).train.tolist() == sorted(order[:50].tolist())


def test_cora_ten_percent() -> None:
    graph = load_dataset("cora")
    splits = [node_split(graph, seed=seed) for seed in range(5)]
    assert {split.train.size for split in splits} == {271}
    assert len({split.fingerprint() for split in splits}) == 5


def test_global_random_state_neither_matters_nor_changes() -> None:
    graph = block_model(60)
    np.random.seed(1)  # noqa: NPY002
    first = node_split(graph, seed=5).fingerprint()
    state = np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert state == np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    assert node_split(graph, seed=5).fingerprint() == first


def test_labels_of_test_nodes_matter_only_for_coverage() -> None:
    graph = block_model(300, num_classes=3)
    split = node_split(graph, 0.3)
    assert graph.labels is not None
    other = graph.labels.copy()
    other[split.test] = np.random.default_rng(0).permutation(other[split.test])
    assert node_split(graph.with_labels(other), 0.3).fingerprint() == split.fingerprint()


def test_json_there_and_back() -> None:
    split = node_split(block_model(30), 0.3, seed=11)
    back = NodeSplit.from_json(json.loads(json.dumps(split.to_json())))
    assert back.fingerprint() == split.fingerprint()
    assert (back.seed, back.kind) == (11, "nodes")
    with pytest.raises(DataError, match="needs"):
        NodeSplit.from_json({"kind": "links"})


def test_splits_are_read_only_and_sorted() -> None:
    split = NodeSplit(train=np.array([3, 1]), test=np.array([2, 0]), seed=0)
    assert (split.train.tolist(), split.test.tolist()) == ([1, 3], [0, 2])
    with pytest.raises(ValueError, match="read-only"):
        split.train[0] = 0


@pytest.mark.parametrize("train", [0.0, 1.0, -0.1, 10.0, float("nan")])
def test_shares_outside_the_open_interval(train: float) -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        node_split(block_model(30), train)


def test_refusals() -> None:
    graph = block_model(30)
    with pytest.raises(DataError, match="has no labels"):
        node_split(Graph.from_arrays(edges=[[0], [1]]))
    with pytest.raises(UsageError, match="per_class=20"):
        node_split(graph, None)
    with pytest.raises(UsageError, match="at least 1"):
        node_split(graph, per_class=0)
    with pytest.raises(UsageError, match="seed must be"):
        node_split(graph, seed=-1)
    with pytest.raises(DataError, match="1 labelled node"):
        node_split(labelled([-1, 2, -1]))
    with pytest.raises(DataError, match="leaves no training"):
        node_split(graph, 0.001)
    with pytest.raises(DataError, match="leaves no test"):
        node_split(graph, 0.999)
    with pytest.raises(DataError, match="node numbers"):
        NodeSplit(train=np.array([0.5]), test=np.array([1]), seed=0)


# link_split: against plain sets on hostile graphs, uniform negatives, seeds, refusals.


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


@pytest.mark.slow
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


def test_json_there_and_back_splits_links() -> None:
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


def test_refusals_splits_links() -> None:
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


# check_no_leak finds every kind of damage, and PyG's own leak.

# A path 0-1-2-3-4-5: five links, ten non-links.
PATH = Graph.from_arrays(edges=[[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]], labels=[0, 0, 1, 1, 0, -1])


GOOD_LINKS = LinkSplit(
    train=np.array([[0, 1, 2], [1, 2, 3]]),
    test=np.array([[3, 4], [4, 5]]),
    train_negatives=np.array([[0, 0, 0], [2, 3, 4]]),
    test_negatives=np.array([[1, 1], [3, 4]]),
    num_nodes=6,
    seed=0,
)


GOOD_NODES = NodeSplit(train=np.array([0, 2]), test=np.array([1, 3, 4]), seed=0)


def test_good_splits_pass() -> None:
    check_no_leak(PATH, GOOD_LINKS)
    check_no_leak(PATH, GOOD_NODES)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"test": [[0, 4], [1, 5]]}, r"links are on both .* side: \(0, 1\)\."),
        ({"test": [[1, 4], [0, 5]]}, r"links are on both .* side: \(0, 1\)\."),
        ({"train": [[0, 0, 2], [1, 1, 3]]}, r"train pairs are listed twice: \(0, 1\)\."),
        ({"test": [[4, 5], [5, 4]]}, r"test pairs are listed twice: \(4, 5\)\."),
        ({"train": [[0, 1, 2], [1, 2, 2]]}, r"train pairs join a node to itself: \(2, 2\)\."),
        ({"train": [[0, 1, 2], [1, 2, 5]]}, r"train pairs are not links of the graph: \(2, 5\)\."),
        ({"test_negatives": [[1, 4], [3, 5]]}, r"test negatives are links .*: \(4, 5\)\."),
        ({"train_negatives": [[0, 0, 3], [2, 3, 4]]}, r"train negatives are links .*: \(3, 4\)\."),
        ({"test_negatives": [[1, 4], [3, 0]]}, r"negatives are on both .* side: \(0, 4\)\."),
        ({"test_negatives": [[1, 3], [3, 1]]}, r"test negatives pairs are listed twice"),
        ({"test_negatives": [[1, 1], [3, 6]]}, r"not in the graph of 6 nodes: \(1, 6\)\."),
        ({"train": [[-1, 1, 2], [1, 2, 3]]}, r"not in the graph of 6 nodes: \(-1, 1\)\."),
        ({"test_negatives": [[1], [3]]}, r"3 training and 2 test links but 3 and 1 negatives"),
        ({"num_nodes": 7}, r"is for 7 nodes, and the graph has 6"),
    ],
)
def test_damaged_link_splits(damage: dict[str, object], message: str) -> None:
    changes = {
        field: np.array(value) if field != "num_nodes" else value for field, value in damage.items()
    }
    with pytest.raises(DataError, match=message):
        check_no_leak(PATH, replace(GOOD_LINKS, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"test": [0, 1, 3]}, r"both training and test nodes: 0\."),
        ({"train": [0, 0]}, r"training nodes are listed twice: 0\."),
        ({"test": [1, 5]}, r"test nodes have no label: 5\."),
        ({"train": [0, 6]}, r"training nodes are not in the graph of 6 nodes: 6\."),
        ({"test": [-1, 1]}, r"test nodes are below 0: -1\."),
    ],
)
def test_damaged_node_splits(damage: dict[str, list[int]], message: str) -> None:
    changes = {field: np.array(value) for field, value in damage.items()}
    with pytest.raises(DataError, match=message):
        check_no_leak(PATH, replace(GOOD_NODES, **changes))  # type: ignore[arg-type]


def test_a_node_split_needs_labels() -> None:
    with pytest.raises(DataError, match="has no labels"):
        check_no_leak(Graph.from_arrays(edges=[[0], [1]]), GOOD_NODES)


def test_where_non_links_run_out_all_of_them_must_be_used() -> None:
    pairs = np.stack(np.triu_indices(6, k=1))
    graph = Graph.from_arrays(edges=pairs[:, 3:])
    split = link_split(graph)
    assert split.train_negatives.shape[1] + split.test_negatives.shape[1] == 3
    check_no_leak(graph, split)
    with pytest.raises(DataError, match="draw one negative for each link"):
        check_no_leak(graph, replace(split, train_negatives=split.train_negatives[:, 1:]))


def test_pygs_random_link_split_is_caught_on_directed_input() -> None:
    graph = block_model(100)
    with quiet_pyg():
        from torch_geometric.data import Data
        from torch_geometric.transforms import RandomLinkSplit

    with torch.random.fork_rng():
        torch.manual_seed(0)
        data = Data(edge_index=torch.from_numpy(graph.edge_index.copy()), num_nodes=100)
        training, _, test = RandomLinkSplit(num_val=0.0, num_test=0.4)(data)
    links, none = test.edge_label_index[:, test.edge_label == 1].numpy(), np.empty((2, 0), np.int64)
    theirs = LinkSplit(training.edge_index.numpy(), links, none, none, num_nodes=100, seed=0)
    with pytest.raises(DataError, match="listed twice"):
        check_no_leak(graph, theirs)
    once = replace(
        theirs, train=np.unique(theirs.train, axis=1), test=np.unique(theirs.test, axis=1)
    )
    with pytest.raises(DataError, match="links are on both the training and the test side"):
        check_no_leak(graph, once)
    check_no_leak(graph, link_split(graph))


# A split that holds nothing back.


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


# Graphs of other libraries, and splits that come from elsewhere.


def test_every_kind_of_graph_can_be_split_and_checked() -> None:
    graph = block_model(40)
    data, nx_graph = graph.to_pyg(), graph.to_networkx()
    data.train_mask = torch.ones(40, dtype=torch.bool)  # a split is made, so it is not missed
    nodes, links = node_split(graph, seed=3), link_split(graph, seed=3)
    for kind in (graph, data, nx_graph):
        assert node_split(kind, seed=3).fingerprint() == nodes.fingerprint()
        assert link_split(kind, seed=3).fingerprint() == links.fingerprint()
        check_no_leak(kind, nodes)
        check_no_leak(kind, links)
        np.testing.assert_array_equal(links.training_graph(kind).edges, links.train)
    assert link_split(graph.adjacency, seed=3).fingerprint() == links.fingerprint()
    check_no_leak(graph.adjacency, links)
    with pytest.raises(UsageError, match=r"ndarray of \[3, 3\] is no graph"):
        node_split(np.eye(3))


@given(st.lists(st.sampled_from("-ty "), min_size=1, max_size=30))
def test_masks_numbers_and_tensors_are_the_same_split(roles: list[str]) -> None:
    train = [node for node, role in enumerate(roles) if role == "t"]
    test = [node for node, role in enumerate(roles) if role == "y"]
    masks = [np.array([role == side for role in roles], dtype=bool) for side in "ty"]
    forms: list[tuple[Any, Any]] = [
        (train, test),
        (train[::-1], test[::-1]),
        (np.array(train, np.int32), torch.tensor(test, dtype=torch.long)),
        (masks[0], torch.from_numpy(masks[1])),
        (masks[0].tolist(), np.array(test, dtype=np.int64)),
    ]
    for form in forms:
        split = NodeSplit.from_masks(*form)
        assert split.train.tolist() == train
        assert split.test.tolist() == test
        assert NodeSplit.from_json(json.loads(json.dumps(split.to_json()))).seed is None
    assert NodeSplit.from_masks(masks[0]).test.size == 0


def test_masks_of_a_graph_leave_out_nodes_without_a_label() -> None:
    graph = labelled([0, -1, 2, 2, -1, 1])
    split = NodeSplit.from_masks([True] * 3 + [False] * 3, [3, 4, 5], graph=graph)
    assert (split.train.tolist(), split.test.tolist()) == ([0, 2], [3, 5])
    check_no_leak(graph, split)


@pytest.mark.parametrize(
    ("mask", "match"),
    [
        (np.ones((6, 10), dtype=bool), r"\[6, 10\], .* such as train_mask\[:, 0\]"),
        (np.ones(5, dtype=bool), "is for 5 nodes, and graph 'toy' has 6"),
        ([0, 6], "nodes that graph 'toy' of 6 nodes does not have: 6"),
        ([-1, 2], "does not have: -1"),
        ([0, 1, 1, 0], r"twice: 0, 1\. .* a mask of booleans"),
        ([0.5, 1.0], "booleans, one a node, or node numbers, not float64"),
        (np.array(["cat", "dog"]), "or node numbers, not <U3"),
    ],
)
def test_masks_refused(mask: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        NodeSplit.from_masks(mask, graph=labelled([0, 1, 2, 0, 1, 2]))


def test_the_masks_of_a_pyg_data() -> None:
    data = block_model(12).to_pyg()
    with pytest.raises(DataError, match="no train_mask"):
        NodeSplit.from_pyg(data)
    data.train_mask = torch.arange(12) < 4
    data.val_mask = (torch.arange(12) >= 4) & (torch.arange(12) < 7)
    data.y[1] = -1
    split = NodeSplit.from_pyg(data)
    assert (split.train.tolist(), split.test.tolist()) == ([0, 2, 3], [])
    data.test_mask = (torch.arange(12) >= 7).byte()
    split = NodeSplit.from_pyg(data)
    assert (split.train.tolist(), split.test.tolist()) == ([0, 2, 3], [7, 8, 9, 10, 11])
    check_no_leak(data, split)
    data.train_mask = torch.ones(12, 10, dtype=torch.bool)
    with pytest.raises(DataError, match=r"train_mask\[:, 0\]"):
        NodeSplit.from_pyg(data)


def test_given_links_get_the_negatives_they_lack() -> None:
    graph = block_model(40)
    whole = link_split(graph, seed=1)
    split = LinkSplit.from_pairs(graph, whole.train, torch.from_numpy(whole.test[::-1].copy()))
    check_no_leak(graph, split)
    np.testing.assert_array_equal(split.train, whole.train)
    np.testing.assert_array_equal(split.test, whole.test)
    both = LinkSplit.from_pairs(
        graph,
        np.concatenate([whole.train, whole.train[::-1]], axis=1),  # both directions, as in PyG
        whole.test,
        train_negatives=whole.train_negatives[:, :5],
        test_negatives=whole.test_negatives,
    )
    check_no_leak(graph, both)
    assert pair_set(whole.train_negatives[:, :5]) <= pair_set(both.train_negatives)
    np.testing.assert_array_equal(both.test_negatives, whole.test_negatives)
    again, other = (
        LinkSplit.from_pairs(graph, whole.train, whole.test, seed=s).fingerprint() for s in (0, 1)
    )
    assert split.fingerprint() == again != other


def test_given_links_in_a_dense_graph_share_the_non_links() -> None:
    pairs = np.array([(u, v) for u in range(7) for v in range(u) if (u, v) not in {(6, 5), (4, 2)}])
    graph = Graph.from_arrays(None, pairs.T)
    split = LinkSplit.from_pairs(graph, graph.edges[:, :10], graph.edges[:, 10:])
    assert split.train_negatives.shape == split.test_negatives.shape == (2, 1)


def test_given_links_that_leak_are_refused() -> None:
    graph = block_model(40)
    whole = link_split(graph)
    leak = np.concatenate([whole.train, whole.test[:, :1]], axis=1)
    with pytest.raises(DataError, match="links are on both the training and the test side"):
        LinkSplit.from_pairs(graph, leak, whole.test)
    with pytest.raises(DataError, match="test negatives are links of the graph"):
        LinkSplit.from_pairs(graph, whole.train, whole.test, test_negatives=whole.train)
    with pytest.raises(DataError, match="train pairs are not links of the graph"):
        LinkSplit.from_pairs(graph, whole.test_negatives, whole.test)


def random_link_split(data: Any, **options: Any) -> Any:
    with quiet_pyg():
        from torch_geometric.transforms import RandomLinkSplit

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return RandomLinkSplit(num_val=0.1, num_test=0.3, **options)(data)


@pytest.mark.parametrize("negatives", [True, False])
@pytest.mark.parametrize("disjoint", [0.0, 0.3])
def test_the_split_of_pyg_is_a_split(negatives: bool, disjoint: float) -> None:
    graph = block_model(60)
    parts = random_link_split(
        graph.to_pyg(),
        is_undirected=True,
        add_negative_train_samples=negatives,
        disjoint_train_ratio=disjoint,
    )
    split = LinkSplit.from_pyg(parts[0], parts[2])
    check_no_leak(graph, split)
    later = {tuple(sorted(pair)) for pair in parts[2].edge_label_index.T.tolist()}
    assert pair_set(split.test) <= later
    labels = parts[2].edge_label.bool()
    assert split.test.shape[1] == int(labels.sum())
    links = split.train.shape[1] + split.test.shape[1]
    assert graph.num_edges - links == int(parts[1].edge_label.sum())  # those for validation
    theirs = pair_set(np.sort(parts[2].edge_label_index[:, ~labels].numpy(), axis=0))
    assert theirs <= pair_set(split.test_negatives)


def test_a_split_of_directed_links_by_pyg_leaks_and_is_refused() -> None:
    parts = random_link_split(block_model(60).to_pyg(), is_undirected=False)
    with pytest.raises(DataError, match="links are on both the training and the test side"):
        LinkSplit.from_pyg(parts[0], parts[2])
    with pytest.raises(DataError, match="no edge_label"):
        LinkSplit.from_pyg(block_model(60).to_pyg(), parts[2])


ONES: Any = np.ones(6, dtype=bool)
TEXT: Any = "a"
PART: Any = 1.5
NONE: Any = None
GIVEN: Any = PATH


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: NodeSplit.from_masks(ONES, ONES), r"both training and test nodes: 0, 1, 2, 3, 4,"),
        (
            lambda: NodeSplit.from_masks(ONES, ONES[:5]),
            r"is for 6 nodes, and test_mask for 5: give",
        ),
        (lambda: NodeSplit(np.array([-1]), np.array([5])), r"training nodes are below 0: -1\."),
        (lambda: NodeSplit(np.array([1, 1]), np.array([2])), r"training nodes are listed twice: 1"),
        (lambda: node_split(PATH, train=TEXT), r"train=a is not a share: give a number"),
        (lambda: node_split(PATH, per_class=PART), r"per_class=1\.5 must be a whole number of at"),
        (lambda: link_split(PATH, train=NONE), r"train=None is not a share: give a number"),
        (
            lambda: NodeSplit.from_pyg(GIVEN),
            r"takes a PyG Data, not a Graph: .* node_split\(graph\)",
        ),
        (
            lambda: LinkSplit.from_pyg(TEXT, TEXT),
            r"takes a PyG Data, not a str: .* link_split\(graph",
        ),
        (lambda: check_no_leak(PATH, ONES), r"A ndarray is no split: give one of node_split or"),
        (lambda: check_no_leak(PATH, TEXT), r"A str is no split: give one of node_split or link_"),
    ],
)
def test_what_is_no_split_is_refused_where_it_is_made(make: Any, sentence: str) -> None:
    with pytest.raises(XTCLError, match=sentence):
        make()


def test_one_side_may_be_empty() -> None:
    assert NodeSplit(np.array([1]), np.arange(0)).test.size == 0
    assert NodeSplit(np.arange(0), np.array([1])).train.size == 0
