"""node_split: sizes, coverage of classes, seeds, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit, check_no_leak, node_split
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
