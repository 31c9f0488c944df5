"""Graph.from_arrays and what a graph offers, against plain Python sets."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import xtcl.graph
from xtcl.errors import DataError
from xtcl.graph.graph import Graph
from xtcl.graph.validation import Repairs

NODES = 7
pairs = st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1))
edge_lists = st.lists(pairs, max_size=40)


def as_edges(given_pairs: list[tuple[int, int]]) -> np.ndarray[Any, Any]:
    return np.array(given_pairs, np.int64).reshape(-1, 2).T


def expected_repairs(given_pairs: list[tuple[int, int]]) -> Repairs:
    """The definition in `Repairs`, word by word."""
    proper = [(u, v) for u, v in given_pairs if u != v]
    arcs = set(proper)
    one_way = {(u, v) for u, v in arcs if (v, u) not in arcs}
    mixed = bool(arcs - one_way) and bool(one_way)
    return Repairs(
        loops_dropped=len(given_pairs) - len(proper),
        duplicates_merged=len(proper) - len(arcs),
        directions_removed=len(one_way) if mixed else 0,
    )


@given(edge_lists)
def test_edges_are_the_set_of_unordered_pairs(given_pairs: list[tuple[int, int]]) -> None:
    graph = Graph.from_arrays(np.ones((NODES, 1)), as_edges(given_pairs))
    oracle = sorted({(min(p), max(p)) for p in given_pairs if p[0] != p[1]})
    assert [tuple(p) for p in graph.edges.T.tolist()] == oracle
    assert graph.edges.dtype == np.int64
    assert graph.num_edges == len(oracle)
    assert graph.repairs == expected_repairs(given_pairs)


@given(edge_lists)
def test_adjacency_edge_index_and_degrees_agree_with_a_dense_matrix(
    given_pairs: list[tuple[int, int]],
) -> None:
    graph = Graph.from_arrays(np.ones((NODES, 1)), as_edges(given_pairs))
    dense = np.zeros((NODES, NODES), np.float32)
    for u, v in given_pairs:
        if u != v:
            dense[u, v] = dense[v, u] = 1
    adjacency = graph.adjacency
    assert np.array_equal(adjacency.toarray(), dense)
    assert adjacency.dtype == np.float32
    # has_canonical_format is set by us, so look at the places themselves
    assert adjacency.indices.dtype == np.int32
    assert np.array_equal(adjacency.indices, np.nonzero(dense)[1])
    assert np.array_equal(graph.edge_index, np.stack(np.nonzero(dense)))
    assert graph.edge_index.dtype == np.int64
    assert graph.degrees.tolist() == dense.sum(axis=1).astype(int).tolist()
    assert graph.degrees.dtype == np.int64


@given(edge_lists)
def test_either_convention_gives_the_same_graph_without_repairs(
    given_pairs: list[tuple[int, int]],
) -> None:
    graph = Graph.from_arrays(np.ones((NODES, 1)), as_edges(given_pairs))
    for again in (graph.with_edges(graph.edges), graph.with_edges(graph.edge_index[:, ::-1])):
        assert np.array_equal(again.edges, graph.edges)
        assert not again.repairs


def test_repairs_are_described_in_sentences() -> None:
    edges = [[0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 2, 2]]
    graph = Graph.from_arrays(np.ones((3, 1)), edges)
    assert graph.repairs == Repairs(loops_dropped=3, duplicates_merged=0, directions_removed=1)
    assert graph.repairs
    assert graph.repairs.sentences() == [
        "3 edges from a node to itself were dropped.",
        "1 one-way edge was made undirected.",
    ]
    assert Repairs(duplicates_merged=1).sentences() == ["1 repeated edge was merged."]
    (many,) = Repairs(directions_removed=999946).sentences()
    assert many == "999,946 one-way edges were made undirected."
    assert Repairs().sentences() == []
    assert not Repairs()


def test_properties_summary_and_repr() -> None:
    graph = Graph.from_arrays(
        np.arange(8).reshape(4, 2), [[0, 1], [1, 2]], [5, 5, -1, 9], name="small"
    )
    assert repr(graph) == "Graph(name='small', nodes=4, edges=2, attributes=2, classes=2)"
    assert graph.has_attributes
    assert graph.has_labels
    assert graph.summary() == {
        "name": "small",
        "nodes": 4,
        "edges": 2,
        "attributes": 2,
        "classes": 2,
        "labelled_nodes": 3,
        "isolated_nodes": 1,
        "mean_degree": 1.0,
        "repairs": [],
    }


def test_without_attributes_or_without_edges() -> None:
    bare = Graph.from_arrays(edges=[[0], [3]])
    assert (bare.num_nodes, bare.num_attributes, bare.has_attributes) == (4, 0, False)
    assert bare.attributes.shape == (4, 0)
    assert bare.labels is None
    assert not bare.has_labels
    assert bare.num_classes == 0
    assert Graph.from_arrays(np.zeros((5, 0)), [[0], [1]]).num_nodes == 5
    assert Graph.from_arrays(edges=[[0], [1]], num_nodes=9).num_nodes == 9
    assert Graph.from_arrays(edges=[[0], [1]], labels=[0, 1, 0]).num_nodes == 3
    assert Graph.from_arrays(edges=[[0], [1]], node_ids=["a", "b", "c", "d"]).num_nodes == 4
    empty: list[Any] = [None, [], np.zeros((2, 0)), np.zeros((0, 2))]
    for nothing in empty:
        lone = Graph.from_arrays(np.eye(3), nothing)
        assert lone.num_edges == 0
        assert lone.adjacency.nnz == 0
        assert lone.edge_index.shape == (2, 0)
        assert lone.degrees.tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.uint64, np.int64])
def test_any_integer_type_of_edges(dtype: Any) -> None:
    graph = Graph.from_arrays(np.eye(3), np.array([[2], [0]], dtype))
    assert graph.edges.tolist() == [[0], [2]]


def test_torch_tensors_dense_sparse_and_half() -> None:
    dense = torch.tensor([[1.0, 0.0], [0.0, 2.0]], requires_grad=True)
    edges = torch.tensor([[0], [1]])
    for x in (dense, dense.bfloat16(), dense.half(), dense.double()):
        graph = Graph.from_arrays(x, edges, torch.tensor([1, 0]))
        assert isinstance(graph.attributes, np.ndarray)
        assert np.array_equal(graph.attributes, [[1, 0], [0, 2]])
        assert graph.attributes.dtype == np.float32
        assert graph.labels is not None
        assert graph.labels.tolist() == [1, 0]
    graph = Graph.from_arrays(dense.to_sparse(), edges)
    assert isinstance(graph.attributes, sparse.csr_array)
    assert np.array_equal(graph.attributes.toarray(), [[1, 0], [0, 2]])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_sparse_attributes_become_canonical_csr(kind: Any) -> None:
    source = sparse.coo_array(([1.0, 2.0, 3.0, 0.0], ([1, 0, 1, 0], [2, 1, 2, 0])), shape=(2, 3))
    graph = Graph.from_arrays(source.asformat(kind), [[0], [1]])
    matrix = graph.attributes
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.dtype == np.float32
    assert matrix.indices.tolist() == [1, 2]
    assert matrix.data.tolist() == [2.0, 4.0]
    old_style = Graph.from_arrays(sparse.csr_matrix(source), [[0], [1]])
    assert isinstance(old_style.attributes, sparse.csr_array)
    assert old_style.fingerprint() == graph.fingerprint()


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_nothing_can_be_written_and_nothing_is_aliased(make: Any) -> None:
    attributes = make(np.arange(6, dtype=np.float32).reshape(3, 2))
    edges = np.array([[0, 1], [1, 2]])
    labels = np.array([0, 1, -1])
    ids = np.array([10, 20, 30])
    graph = Graph.from_arrays(attributes, edges, labels, node_ids=ids)
    before = pickle.dumps(graph)
    part = attributes if isinstance(attributes, np.ndarray) else attributes.data
    for mine in (part, edges, labels, ids):
        assert mine.flags.writeable
        mine[:] = 1
    assert pickle.dumps(graph) == before

    held: Any = graph.attributes
    parts: list[Any] = (
        [held] if isinstance(held, np.ndarray) else [held.data, held.indices, held.indptr]
    )
    adjacency = graph.adjacency
    parts += [graph.edges, graph.labels, graph.node_ids, graph.edge_index, graph.degrees]
    parts += [adjacency.data, adjacency.indices, adjacency.indptr]
    for array in parts:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    with pytest.raises(FrozenInstanceError):
        graph.name = "other"  # type: ignore[misc]


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_nobody_can_change_the_adjacency_of_another() -> None:
    graph = Graph.from_arrays(np.eye(3), [[0], [1]])
    before = graph.adjacency.toarray()
    for place in ((0, 1), (0, 2)):
        with pytest.raises(ValueError, match="read-only"):
            graph.adjacency[place] = 5
    graph.adjacency.setdiag(1)
    assert np.array_equal(graph.adjacency.toarray(), before)


def test_read_only_adjacency_works_with_scipy() -> None:
    graph = Graph.from_arrays(np.eye(4), [[0, 1], [1, 2]])
    adjacency: Any = graph.adjacency
    assert (adjacency @ adjacency).diagonal().tolist() == [1, 2, 1, 0]
    assert adjacency[[1]].toarray().tolist() == [[1, 0, 1, 0]]
    assert (adjacency @ np.ones(4)).tolist() == graph.degrees.tolist()
    hops = sparse.csgraph.shortest_path(adjacency, unweighted=True)
    assert hops[0].tolist() == [0, 1, 2, np.inf]
    assert sparse.csgraph.connected_components(adjacency)[0] == 2


def test_pickle_stays_read_only() -> None:
    graph = Graph.from_arrays(sparse.eye_array(3), [[0], [1]], ["x", "y", ""], name="n")
    again: Any = pickle.loads(pickle.dumps(graph))  # noqa: S301
    assert again.fingerprint() == graph.fingerprint()
    assert (again.classes, again.name) == (("x", "y"), "n")
    assert not again.edges.flags.writeable
    assert not again.attributes.data.flags.writeable


def test_a_graph_is_shared_not_copied() -> None:
    graph = Graph.from_arrays(np.eye(3), [[0], [1]], ["x", "y", ""])
    assert copy.copy(graph) is graph
    assert copy.deepcopy({"in": [graph]})["in"][0] is graph


def test_with_edges_and_with_labels() -> None:
    graph = Graph.from_arrays(np.eye(3), [[0, 0], [1, 1]], ["b", "a", None])
    assert graph.repairs.duplicates_merged == 1
    other = graph.with_edges([[2, 1], [1, 2]])
    assert other.edges.tolist() == [[1], [2]]
    assert not other.repairs
    assert other.degrees.tolist() == [0, 1, 1]
    assert graph.degrees.tolist() == [1, 1, 0]
    hidden = graph.with_labels([-1, -1, 1])
    assert hidden.classes == ("a", "b")
    assert hidden.labels is not None
    assert hidden.labels.tolist() == [-1, -1, 1]
    assert hidden.repairs == graph.repairs
    assert not graph.with_labels([-1, -1, -1]).has_labels
    with pytest.raises(DataError, match="less than 2"):
        graph.with_labels([0, 1, 2])
    with pytest.raises(DataError, match=r"nodes 0\.\.2"):
        graph.with_edges([[0], [3]])


def test_fingerprint_reads_content_and_not_form() -> None:
    dense = np.array([[0, 1.5], [-0.0, 0], [2, 3]])
    graph = Graph.from_arrays(dense, [[0, 1], [1, 2]], name="a")
    same = Graph.from_arrays(
        sparse.csc_array(dense), [[2, 1], [1, 0]], ["x", "y", "z"], node_ids=[5, 6, 7], name="b"
    )
    assert same.fingerprint() == graph.fingerprint()
    assert len(graph.fingerprint()) == 64
    others = [
        Graph.from_arrays(dense + 1, [[0, 1], [1, 2]]),
        Graph.from_arrays(dense[:, ::-1], [[0, 1], [1, 2]]),
        Graph.from_arrays(dense, [[0, 0], [1, 2]]),
        Graph.from_arrays(np.hstack([dense, np.zeros((3, 1))]), [[0, 1], [1, 2]]),
        Graph.from_arrays(np.vstack([dense, np.zeros((1, 2))]), [[0, 1], [1, 2]]),
    ]
    assert len({graph.fingerprint(), *(other.fingerprint() for other in others)}) == 6


def test_fingerprint_is_the_same_for_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    attributes = np.random.default_rng(0).normal(size=(20, 3))
    whole = Graph.from_arrays(attributes).fingerprint()
    monkeypatch.setattr("xtcl.graph.graph._BLOCK_BYTES", 40)
    assert Graph.from_arrays(attributes).fingerprint() == whole


def test_the_constructor_takes_canonical_arrays_only() -> None:
    graph = Graph.from_arrays(np.eye(3), [[0, 1], [1, 2]], [0, 1, -1])
    writable = np.array([[0, 1], [2, 2]])
    other = replace(graph, edges=writable)
    writable[:] = 0
    assert other.edges.tolist() == [[0, 1], [2, 2]]
    for wrong in (
        {"edges": np.array([[1], [0]])},
        {"edges": np.array([[1, 0], [2, 1]])},
        {"edges": np.array([[0, 0], [1, 1]])},
        {"edges": np.array([[0], [3]])},
        {"edges": np.array([[-1], [1]])},
        {"edges": np.array([[0], [1]], np.int32)},
        {"edges": np.array([0, 1])},
        {"attributes": np.eye(3)},
        {"attributes": np.ones(3, np.float32)},
        {"labels": np.array([0, 1])},
        {"labels": np.array([0, 1, 2])},
        {"labels": np.array([0, 1, -2])},
    ):
        with pytest.raises(DataError, match="from_arrays"):
            replace(graph, **wrong)


@pytest.mark.parametrize("name", xtcl.graph.__all__)
def test_the_package_offers_its_public_names(name: str) -> None:
    assert getattr(xtcl.graph, name).__name__ == name
    assert getattr(xtcl.graph, name) is getattr(xtcl, name)


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'rubbish'"):
        _ = xtcl.graph.rubbish
