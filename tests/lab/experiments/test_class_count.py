from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from strategies import graphs, make_graph

from xtcl.errors import DataError
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.lab.experiments.class_count import fewer_classes


def dense(graph: Graph) -> np.ndarray:
    assert isinstance(graph.attributes, np.ndarray)
    return graph.attributes


def kept_values(graph: Graph) -> set[object]:
    return set(graph.classes)


@given(
    graph=graphs(attributes=("counts", "signed"), labels=("some unknown", "many")),
    number=st.integers(2, 4),
    seed=st.integers(0, 9),
)
def test_what_is_left_is_the_induced_subgraph(graph: Graph, number: int, seed: int) -> None:
    assert graph.labels is not None
    assume(number <= len(np.unique(graph.labels[graph.labels >= 0])))
    part = fewer_classes(graph, number, seed=seed)
    assert part.labels is not None
    assert part.num_classes == number
    values = graph.label_values(graph.labels)
    kept = [
        node
        for node in range(graph.num_nodes)
        if graph.labels[node] < 0 or values[node] in kept_values(part)
    ]
    ids = list(range(graph.num_nodes)) if part.node_ids is None else part.node_ids.tolist()
    assert ids[: part.num_nodes] == kept
    assert np.array_equal(dense(part), dense(graph)[kept])
    assert part.label_values(part.labels).tolist() == values[kept].tolist()
    expected = {(u, v) for u, v in graph.edges.T.tolist() if u in kept and v in kept}
    assert {(kept[u], kept[v]) for u, v in part.edges.T.tolist()} == expected
    assert not part.repairs


def test_fewer_classes_are_some_of_the_more_and_all_are_the_graph() -> None:
    graph = make_graph(60, seed=1)
    assert graph.num_classes == 4
    parts = [fewer_classes(graph, number, seed=5) for number in (2, 3, 4)]
    for fewer, more in itertools.pairwise(parts):
        assert kept_values(fewer) < kept_values(more)
        assert fewer.num_nodes < more.num_nodes
    assert parts[-1].fingerprint() == graph.fingerprint()
    assert parts[-1].labels is not None
    assert graph.labels is not None
    assert np.array_equal(parts[-1].labels, graph.labels)


def test_the_seed_chooses_among_all_classes() -> None:
    graph = make_graph(60, seed=1)
    drawn = {fewer_classes(graph, 2, seed=seed).classes for seed in range(60)}
    assert drawn == set(itertools.combinations(graph.classes, 2))
    assert fewer_classes(graph, 2, seed=3).classes == fewer_classes(graph, 2, seed=3).classes


def test_original_ids_and_sparse_attributes_come_along() -> None:
    attributes = sparse.csr_array(np.eye(6, dtype=np.float32))
    labels = ["b", "a", "b", "c", "a", "c"]
    graph = Graph.from_arrays(
        attributes, [[0, 1, 2], [1, 3, 4]], labels, node_ids=list("uvwxyz"), name="six"
    )
    part = fewer_classes(graph, 2, seed=0)
    assert sparse.issparse(part.attributes)
    assert part.node_ids is not None
    assert part.labels is not None
    named = dict(zip("uvwxyz", labels, strict=True))
    assert [named[i] for i in part.node_ids] == part.label_values(part.labels).tolist()
    assert part.name == "six-2-classes"


def test_cora() -> None:
    part = fewer_classes(load_dataset("cora"), 3, seed=0)
    assert part.labels is not None
    assert part.num_classes == 3
    assert np.bincount(part.labels).min() > 100
    assert part.num_nodes < 2708


@pytest.mark.parametrize("number", [1, 5])
def test_a_number_of_classes_that_is_not_there_is_refused(number: int) -> None:
    with pytest.raises(DataError, match=f"{number} classes cannot be kept of graph 'graph'.* 4"):
        fewer_classes(make_graph(60, seed=1), number)


def test_a_graph_without_labels_is_refused() -> None:
    with pytest.raises(DataError, match="have 0"):
        fewer_classes(make_graph(10, seed=1, labels="none"), 2)
