"""Graphs from and to PyG, NetworkX and scipy."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from xtcl.errors import DataError, UsageError
from xtcl.graph.convert import as_graph
from xtcl.graph.datasets.formats import quiet_pyg
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.validation import Repairs

with quiet_pyg():
    from torch_geometric.data import Data, Dataset, HeteroData

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes = draw(st.integers(2, 8))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    columns = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    attributes = rng.integers(-1, 2, (nodes, columns)) * rng.normal(size=(nodes, columns))
    labels = draw(st.lists(st.sampled_from(["", "a", "b"]), min_size=nodes, max_size=nodes))
    labels[0] = "a"
    form: Any = draw(st.sampled_from([np.array, sparse.csr_array]))
    ids = draw(st.sampled_from([None, [f"n{at}" for at in range(nodes)], range(9, 9 + nodes)]))
    pairs = np.array(edges, np.int64).reshape(-1, 2).T
    return Graph.from_arrays(form(attributes), pairs, labels, node_ids=ids)


@given(graphs())
def test_pyg_round_trip(graph: Graph) -> None:
    data = graph.to_pyg()
    assert data.x.dtype == torch.float32
    assert data.edge_index.dtype == data.y.dtype == torch.int64
    assert data.edge_index.tolist() == graph.edge_index.tolist()
    assert data.validate()
    again = Graph.from_pyg(data, name="again")
    assert again.fingerprint() == graph.fingerprint()
    assert again.name == "again"
    assert not again.repairs
    assert graph.labels is not None
    assert again.label_values(again.labels).tolist() == graph.labels.tolist()


@given(graphs())
def test_networkx_round_trip(graph: Graph) -> None:
    nx_graph = graph.to_networkx()
    again = Graph.from_networkx(nx_graph, attributes=["x"], label="label")
    assert again.fingerprint() == graph.fingerprint()
    assert again.label_values(again.labels).tolist() == graph.label_values(graph.labels).tolist()
    assert not again.repairs
    assert np.array_equal(again.node_ids, graph.node_ids)  # type: ignore[arg-type]


@given(graphs(), st.sampled_from(["csr", "csc", "coo", "lil"]))
def test_scipy_round_trip(graph: Graph, kind: Any) -> None:
    again = Graph.from_scipy(graph.adjacency.asformat(kind), graph.attributes)
    assert again.fingerprint() == graph.fingerprint()
    assert not again.repairs


def test_to_pyg_leaves_out_what_is_not_there_and_shares_nothing() -> None:
    data = Graph.from_arrays(edges=[[0], [1]], num_nodes=3).to_pyg()
    assert data.x is None
    assert data.y is None
    assert data.num_nodes == 3
    graph = Graph.from_arrays(np.eye(2), [[0], [1]], [0, 1])
    data = graph.to_pyg()
    data.x += 1
    data.y += 1
    data.edge_index += 1
    assert isinstance(graph.attributes, np.ndarray)
    assert np.array_equal(graph.attributes, np.eye(2))
    assert graph.edge_index.tolist() == [[0, 1], [1, 0]]


def test_from_pyg_reads_num_nodes_and_flat_labels() -> None:
    data = Data(edge_index=EDGES, num_nodes=5, y=torch.tensor([[0], [1], [0], [1], [1]]))
    graph = Graph.from_pyg(data)
    assert graph.num_nodes == 5
    assert graph.labels is not None
    assert graph.labels.tolist() == [0, 1, 0, 1, 1]
    assert Graph.from_pyg(Data(edge_index=EDGES)).num_nodes == 3
    assert Graph.from_pyg(Data(x=torch.eye(3))).num_edges == 0


def test_from_pyg_reports_repairs() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 2, 1]])
    graph = Graph.from_pyg(Data(x=torch.eye(3), edge_index=edges))
    assert graph.repairs == Repairs(duplicates_merged=1, loops_dropped=1, directions_removed=1)


def test_an_edge_index_with_no_way_back_loses_all_directions() -> None:
    graph = Graph.from_pyg(Data(x=torch.eye(3), edge_index=torch.tensor([[0, 2], [1, 1]])))
    assert graph.repairs == Repairs(directions_removed=2)
    assert not Graph.from_pyg(Data(x=torch.eye(3), edge_index=EDGES)).repairs


@pytest.mark.parametrize("convert", [Graph.from_pyg, as_graph])
def test_a_graph_has_no_masks_and_says_so(convert: Any) -> None:
    data = Data(x=torch.eye(3), edge_index=EDGES, train_mask=torch.tensor([True, False, True]))
    with pytest.warns(UserWarning, match=r"train_mask .* not read: .*NodeSplit.from_pyg") as caught:
        convert(data)
    assert caught[0].filename == __file__
    assert as_graph(data, warn_masks=False).num_nodes == 3  # for those who read them themselves


def test_from_pyg_says_what_it_ignores() -> None:
    data = Data(x=torch.eye(3), edge_index=EDGES, edge_attr=torch.ones(4, 1))
    data.edge_weight = torch.ones(4)
    with pytest.warns(UserWarning, match="Ignored: edge_weight, edge_attr") as caught:
        Graph.from_pyg(data)
    assert caught[0].filename == __file__


def test_a_data_set_of_pyg_is_told_from_its_graph() -> None:
    class Planets(Dataset):  # type: ignore[misc]
        def len(self) -> int:
            return 1

        def get(self, idx: int) -> Data:
            return Data(x=torch.eye(3), edge_index=EDGES)

    with pytest.raises(DataError, match=r"data set, not a graph: .* dataset\[0\]"):
        as_graph(Planets())
    assert as_graph(Planets()[0]).num_nodes == 3


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (HeteroData(), "not HeteroData; .*to_homogeneous"),
        ({"x": 1}, "not dict"),
        (Data(x=torch.eye(3), adj_t=torch.eye(3)), "adj_t"),
        (Data(x=torch.eye(3), edge_index=EDGES, y=torch.ones(3, 4)), "several labels"),
        (Data(x=torch.eye(3), edge_index=EDGES, y=torch.rand(3) + 0.1), "not measurements"),
        (Data(x=torch.eye(3), edge_index=EDGES, y=torch.tensor([1])), "1 labels for 3"),
        (Data(x=torch.eye(3), edge_index=EDGES.float()), "float32; use .astype"),
        (Data(x=torch.eye(2), edge_index=EDGES), "nodes 0..1"),
    ],
)
def test_pyg_refused(data: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        Graph.from_pyg(data)


def test_networkx_order_ids_and_columns() -> None:
    source: nx.Graph[Any] = nx.Graph()
    source.add_node("z", age=3, place=(0.5, 1), kind="shop")
    source.add_node("a", age=True, place=np.array([2, 3]))
    source.add_node("m", age=1.5, place=[4, 5], kind="home")
    source.add_edge("m", "z")
    graph = Graph.from_networkx(source, ["place", "age"], "kind", name="town")
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == ["z", "a", "m"]
    assert isinstance(graph.attributes, np.ndarray)
    assert graph.attributes.tolist() == [[0.5, 1, 3], [2, 3, 1], [4, 5, 1.5]]
    assert graph.edges.tolist() == [[0], [2]]
    assert graph.label_values(graph.labels).tolist() == ["shop", "", "home"]
    assert graph.name == "town"


def test_networkx_ids_of_mixed_kinds() -> None:
    grid = nx.grid_2d_graph(2, 2)
    graph = Graph.from_networkx(grid)
    assert graph.node_ids is not None
    assert graph.node_ids.tolist() == list(grid)
    assert nx.utils.graphs_equal(graph.to_networkx(), nx.Graph(grid, name="graph"))


@pytest.mark.parametrize(
    ("kind", "repairs"),
    [
        (nx.Graph, Repairs(loops_dropped=1)),
        (nx.MultiGraph, Repairs(loops_dropped=1, duplicates_merged=2)),
        (nx.DiGraph, Repairs(loops_dropped=1, directions_removed=1)),
        (nx.MultiDiGraph, Repairs(loops_dropped=1, directions_removed=1, duplicates_merged=1)),
    ],
)
def test_networkx_repairs(kind: Any, repairs: Repairs) -> None:
    source = kind([(0, 1), (1, 0), (0, 1), (1, 2), (2, 2)])
    graph = Graph.from_networkx(source)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.repairs == repairs


def test_a_digraph_with_no_way_back_loses_all_directions() -> None:
    graph = Graph.from_networkx(nx.DiGraph([(0, 1), (2, 1)]))
    assert graph.repairs == Repairs(directions_removed=2)


def test_networkx_weights_are_reported() -> None:
    source: nx.Graph[Any] = nx.Graph()
    source.add_edge(0, 1, weight=0.5)
    with pytest.warns(UserWarning, match="Ignored: weight"):
        Graph.from_networkx(source)


def with_attribute(*values: Any) -> nx.Graph[Any]:
    source: nx.Graph[Any] = nx.path_graph(["u", "v"])
    for node, value in zip(source, values, strict=False):
        source.nodes[node]["x"] = value
    return source


@pytest.mark.parametrize(
    ("source", "arguments", "match"),
    [
        (with_attribute(1), {"attributes": ["x"]}, "'x' is missing on 'v'; set it"),
        (with_attribute(1, "red"), {"attributes": ["x"]}, "'x' of 'v' is 'red', not numbers"),
        (with_attribute(1, [[2]]), {"attributes": ["x"]}, "not numbers"),
        (with_attribute(1, [2, 3]), {"attributes": ["x"]}, "'v' has 2 values.*has 1"),
        (with_attribute([1], [[1], [2, 3]]), {"attributes": ["x"]}, "'x' of 'v' cannot be read"),
        (with_attribute(1, 2), {"attributes": "x"}, r"as a list: \['x'\]"),
        (with_attribute(1, 2), {"label": "klass"}, "No node has the label attribute 'klass'"),
        (with_attribute(1, np.nan), {"attributes": ["x"]}, r"\(1, 0\) is nan"),
        (nx.Graph(), {"attributes": ["x"]}, "neither"),
    ],
)
def test_networkx_refused(source: Any, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(DataError, match=match):
        Graph.from_networkx(source, **arguments)


def test_scipy_counts_entries_as_they_are_given() -> None:
    rows, columns = [0, 0, 1, 1, 2, 0], [1, 1, 0, 2, 2, 2]
    matrix = sparse.coo_array(([1, 1, 1, 1, 1, 0], (rows, columns)), shape=(4, 4))
    graph = Graph.from_scipy(matrix, labels=["a", "b", "a", ""])
    assert graph.num_nodes == 4
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.repairs == Repairs(duplicates_merged=1, loops_dropped=1, directions_removed=1)
    assert not Graph.from_scipy(graph.adjacency).repairs
    upper = sparse.triu(graph.adjacency)
    assert Graph.from_scipy(upper).repairs == Repairs(directions_removed=2)


def test_scipy_weights_are_reported() -> None:
    with pytest.warns(UserWarning, match="weights other than 1"):
        graph = Graph.from_scipy(sparse.csr_array([[0, 0.5], [0.5, 0]]))
    assert graph.num_edges == 1


@pytest.mark.parametrize(
    ("adjacency", "match"),
    [
        (np.eye(3), "wrap a dense one"),
        (sparse.csr_array(np.ones((2, 3))), r"square, not \[2, 3\]"),
        (sparse.coo_array(np.ones(3)), r"square, not \[3\]"),
        (sparse.csr_array(np.array([[0, np.nan], [1, 0]])), r"\(0, 1\) is nan"),
        (sparse.csr_array(np.array([[0, 1], [-1.0, 0]])), r"\(1, 0\) is -1.0"),
        (sparse.csr_array(np.array([[0, 1j], [0, 0]])), "complex"),
    ],
)
def test_scipy_refused(adjacency: Any, match: str) -> None:
    with pytest.raises(DataError, match=match):
        Graph.from_scipy(adjacency)


def test_scipy_attributes_must_fit() -> None:
    with pytest.raises(DataError, match="num_nodes is 3, but there are 2 attribute rows"):
        Graph.from_scipy(sparse.eye_array(3).tocsr(), np.eye(2))


# as_graph: the four kinds that are accepted everywhere, and what is said of the rest.


def test_every_kind_of_graph_is_the_same_graph() -> None:
    graph = block_model(30)
    found = [as_graph(kind) for kind in (graph, graph.to_pyg(), graph.to_networkx())]
    assert found[0] is graph
    assert {each.fingerprint() for each in found} == {graph.fingerprint()}
    for adjacency in (
        graph.adjacency,
        sparse.csr_matrix(graph.adjacency),
        sparse.lil_array(np.eye(4, k=1)),
    ):
        bare = as_graph(adjacency)
        assert bare.num_nodes == adjacency.shape[0]
        assert not bare.has_attributes
    np.testing.assert_array_equal(as_graph(graph.adjacency).edges, graph.edges)


@pytest.mark.parametrize(
    "features",
    [
        np.zeros((4, 3)),
        np.zeros((4, 4)),
        torch.zeros(4, 3),
        [[1.0, 2.0], [3.0, 4.0]],
        sparse.csr_array((5, 3)),
    ],
)
def test_a_feature_matrix_is_sent_to_the_embedder(features: Any) -> None:
    with pytest.raises(UsageError, match=r"SciPy sparse adjacency matrix\..*NodeEmbedder\(graph\)"):
        as_graph(features)


@pytest.mark.parametrize("other", ["cora", {"edges": []}, None, 3])
def test_what_is_no_graph_is_refused(other: Any) -> None:
    with pytest.raises(
        UsageError, match=r"is no graph: give an xtcl Graph, a PyG Data, a NetworkX"
    ):
        as_graph(other)


def test_a_name_is_sent_to_the_data_sets() -> None:
    with pytest.raises(UsageError, match=r"'cora' is no graph: .* load_dataset reads a known data"):
        as_graph("cora")
