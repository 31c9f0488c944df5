from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense import dense_attributes
from hypothesis import given
from hypothesis import strategies as st
from strategies import make_graph, make_view, views

from xtcl.graph.graph import Graph
from xtcl.relations.attribute_distribution import AttributeDistribution
from xtcl.relations.attribute_similarity import AttributeSimilarity
from xtcl.relations.blocks import CPU_BLOCK, GPU_BLOCK, rows_per_block
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import tile_rows
from xtcl.relations.rows import usable_relations
from xtcl.relations.sparse import dense_on
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView
from xtcl.renamed import VIEW_MEMBERS


def links_of(view: TrainingView) -> set[tuple[int, int]]:
    rows, columns = view.adjacency.nonzero()
    return {(int(u), int(v)) for u, v in zip(rows, columns, strict=True)}


def test_of_knows_the_given_labels_and_no_others() -> None:
    graph = make_graph(30, 0)
    assert graph.labels is not None
    view = TrainingView.of(graph, labelled=[3, 5, 8])
    assert np.flatnonzero(view.labels >= 0).tolist() == [3, 5, 8]
    assert view.labels[[3, 5, 8]].tolist() == graph.labels[[3, 5, 8]].tolist()
    assert view.num_classes == graph.num_classes
    assert view.num_nodes == 30


def test_of_a_graph_without_labels_knows_none() -> None:
    view = TrainingView.of(make_graph(10, 0, labels="none"))
    assert (view.labels == -1).all()
    assert view.one_hot_labels().shape == (10, 0)


@given(views())
def test_one_hot_labels(view: TrainingView) -> None:
    Y = view.one_hot_labels()
    for node, label in enumerate(view.labels):
        expected = [float(label == code) for code in range(view.num_classes)]
        assert Y[node].tolist() == expected


@given(views(), st.data())
def test_without_labels_hides_exactly_those(view: TrainingView, data: st.DataObject) -> None:
    before = view.labels.copy()
    nodes = data.draw(st.lists(st.integers(0, view.num_nodes - 1), unique=True))
    less = view.without_labels(np.array(nodes, dtype=np.int64))
    for node in range(view.num_nodes):
        assert less.labels[node] == (-1 if node in nodes else before[node])
    np.testing.assert_array_equal(view.labels, before)
    assert less.adjacency is view.adjacency
    assert less.attributes is view.attributes
    assert less.label_free_cache is view.label_free_cache


@given(views(), st.data())
def test_without_links_hides_exactly_those(view: TrainingView, data: st.DataObject) -> None:
    before = links_of(view)
    pairs = data.draw(st.lists(st.sampled_from(sorted(before)))) if before else []
    less = view.without_links(np.array(pairs, dtype=np.int64).reshape(-1, 2).T)
    assert links_of(less) == before - set(pairs) - {(v, u) for u, v in pairs}
    assert set(less.adjacency.data.tolist()) <= {1.0}
    assert less.adjacency.nnz == len(links_of(less))
    assert links_of(view) == before
    assert less.label_free_cache is not view.label_free_cache


def test_hiding_a_pair_that_is_no_link_changes_nothing() -> None:
    view = make_view(10, 0, "path")
    absent = next((u, v) for u in range(10) for v in range(u) if (u, v) not in links_of(view))
    assert links_of(view.without_links(np.array([absent]).T)) == links_of(view)


def test_adjacency_of_is_symmetric_and_counts_a_repeated_link_once() -> None:
    adjacency = TrainingView.adjacency_of(np.array([[0, 1, 0], [1, 0, 2]]), 4)
    expected = [[0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert adjacency.toarray().tolist() == expected


def test_cached_computes_once_per_key() -> None:
    view = make_view(5, 0)
    calls: list[str] = []

    def compute(key: str) -> str:
        calls.append(key)
        return key * 2

    for key in ("a", "a", "b", "a"):
        assert view.cached(key, partial(compute, key)) == key * 2
    assert calls == ["a", "b"]


def test_available_names_what_is_there() -> None:
    links = np.array([[0], [1]])
    assert TrainingView.of(make_graph(9, 0), [0]).available == {ATTRIBUTES, LINKS, LABELS}
    assert TrainingView.of(make_graph(9, 0), []).available == {ATTRIBUTES, LINKS}
    assert TrainingView.of(make_graph(9, 0, "empty")).available == {ATTRIBUTES}
    assert TrainingView.of(Graph.from_arrays(edges=links)).available == {LINKS}


@pytest.mark.parametrize("old", VIEW_MEMBERS)
def test_old_names_work_with_a_warning(old: str) -> None:
    view, new = make_view(5, 0), VIEW_MEMBERS[old]
    with pytest.warns(DeprecationWarning, match=f"TrainingView.{old} is called {new} now"):
        found = getattr(view, old)
    np.testing.assert_equal(found, getattr(view, new))
    with pytest.raises(AttributeError, match="no attribute 'rubbish'"):
        _ = view.rubbish  # type: ignore[attr-defined]


def test_usable_relations_and_what_the_others_lack() -> None:
    relations = resolve_relations("paper")
    there, lacking = usable_relations(relations, make_view(9, 0, attributes="none", labels="none"))
    assert [r.name for r in there] == ["link", "pagerank", "jaccard", "topology", "graph-distance"]
    assert lacking == {
        "attribute-similarity": ["attributes"],
        "attribute-distribution": ["attributes"],
        "label-distribution": ["labels"],
        "attribute-label-distribution": ["attributes", "labels"],
    }
    there, lacking = usable_relations(relations, make_view(9, 0))
    assert there == relations
    assert lacking == {}
    there, _ = usable_relations(relations, make_view(9, 0, "empty"))
    assert [r.name for r in there] == ["attribute-similarity"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("count", [2, 1000, 10**6, 10**9])
def test_block_height_keeps_an_array_within_its_bytes(count: int, device: str) -> None:
    height, allowed = rows_per_block(count, device), CPU_BLOCK if device == "cpu" else GPU_BLOCK
    tile = tile_rows(torch.device(device))
    assert height == 1 or height * count * 4 <= allowed
    assert height % tile == 0 or height < tile
    assert (height + (tile if height >= tile else 1)) * count * 4 > allowed


def test_a_sparse_view_keeps_its_attributes_sparse() -> None:
    graph = Graph.from_arrays(attributes=sp.csr_array(np.eye(4)), edges=[[0, 1], [1, 2]])
    assert sp.issparse(TrainingView.of(graph).attributes)


def test_what_depends_on_attributes_alone_outlasts_hidden_links() -> None:
    view = make_view(30, 0)
    less = view.without_links(np.array([[0], [int(view.adjacency.indices[0])]]))
    assert less.dense_attributes() is view.dense_attributes()
    np.testing.assert_array_equal(view.dense_attributes().numpy(), dense_attributes(view))
    by_links = AttributeDistribution()
    assert by_links.on(less).compute is not by_links.on(view).compute
    by_attributes = AttributeSimilarity()
    assert by_attributes.on(less).compute is by_attributes.on(view).compute


@pytest.mark.parametrize("device", ["cpu", *["cuda"] * torch.cuda.is_available()])
def test_a_matrix_gets_its_zeros(device: str) -> None:
    twice = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 2, 3])))
    unsorted = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])))
    for matrix in (twice, unsorted, sp.csr_array((2, 3)), np.arange(6).reshape(2, 3)):
        dense = dense_on(matrix, torch.device(device))
        expected = matrix.toarray() if sp.issparse(matrix) else matrix
        assert dense.dtype == torch.float32
        assert dense.device.type == device
        np.testing.assert_array_equal(dense.cpu().numpy(), expected)
