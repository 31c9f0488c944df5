"""check_no_leak finds every kind of damage, and PyG's own leak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xtcl.errors import DataError
from xtcl.graph.datasets.formats import quiet_pyg
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, check_no_leak, link_split

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
        ({"test": [-1, 1]}, r"test nodes are not in the graph of 6 nodes: -1\."),
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
        import torch
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
