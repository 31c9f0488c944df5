"""Similarities of a relation as arrays, against the rows that a fit computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from dense import all_rows, off_diagonal
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import make_graph, views
from test_relation import LargestTensor, every_relation

from xtcl.errors import DataError, UsageError, XTCLError
from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.relations import arrays, blocks
from xtcl.relations.label_distribution import LabelDistribution
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.row_source import LevelSource
from xtcl.relations.view import LABELS, TrainingView

GRAPH = make_graph(30, 0)


@dataclass(frozen=True)
class SaysNotWhatItReads(Relation):
    """Lacks `reads`."""

    name: ClassVar[str] = "silent"
    title: ClassVar[str] = "Silent"

    def prepare(self, view: TrainingView) -> Rows:
        return lambda nodes: torch.ones(len(nodes), view.num_nodes)


def test_a_class_that_does_not_say_what_it_reads_is_refused_as_in_a_fit() -> None:
    relation = SaysNotWhatItReads()
    told = (
        r"The relation 'SaysNotWhatItReads' needs reads: a frozenset of attributes, labels, links"
    )
    calls: list[Callable[[], object]] = [
        lambda: relation.matrix(GRAPH),
        lambda: relation.rows(GRAPH, [0]),
        lambda: relation.pairs(TrainingView.of(GRAPH, []), [[0], [1]]),
        lambda: relation.thresholds(GRAPH),
        lambda: XTCL(relations=[relation]).fit(GRAPH),
    ]
    for call in calls:
        with pytest.raises(UsageError, match=told):
            call()


def eta_of(rows: np.ndarray, quantile: float) -> np.ndarray:
    """The quantile of each row without the node itself: the value that NumPy rounds up to."""
    others = [np.delete(row, u) for u, row in enumerate(rows)]
    return np.array([np.quantile(each, quantile, method="higher") for each in others])


def above_of(rows: np.ndarray, quantile: float) -> np.ndarray:
    """The matrix with 0 for all pairs that are not above."""
    reached = (rows >= eta_of(rows, quantile)[:, None]) & (rows > 0)
    return off_diagonal(np.where(reached, rows, 0.0))


@every_relation
@settings(max_examples=25)
@given(view=views(), data=st.data())
def test_all_arrays_are_those_of_the_rows(
    relation: Relation, view: TrainingView, data: st.DataObject
) -> None:
    if not relation.reads <= view.available:
        with pytest.raises(DataError, match=f"Relation '{relation.name}' reads .*none"):
            relation.matrix(view)
        return
    expected = all_rows(relation, view)
    np.testing.assert_array_equal(relation.matrix(view), expected)
    node = st.integers(0, view.num_nodes - 1)
    nodes = data.draw(st.lists(node, max_size=5))
    pairs = np.array(data.draw(st.lists(st.tuples(node, node), max_size=9)), dtype=int)
    pairs = pairs.reshape(-1, 2).T
    quantile = data.draw(st.sampled_from([0.0, 0.5, 0.9, 0.99]))
    np.testing.assert_array_equal(relation.rows(view, nodes), expected[nodes])
    np.testing.assert_array_equal(relation.pairs(view, pairs), expected[tuple(pairs)])
    found = relation.thresholds(view, nodes, quantile)
    np.testing.assert_array_equal(found, eta_of(expected, quantile)[nodes])
    above = relation.matrix(view, quantile=quantile)
    assert isinstance(above, sp.csr_array)
    assert (above.data > 0).all()
    np.testing.assert_array_equal(above.toarray(), above_of(expected, quantile))


@every_relation
def test_above_pairs_and_similarities_are_those_of_a_fit(relation: Relation) -> None:
    graph = make_graph(150, 1)
    known = np.arange(0, 150, 3)
    view = TrainingView.of(graph, known)
    fitted = LevelSource(relation, view, (0.9,)).rows(torch.arange(150))
    given = relation.matrix(graph, quantile=0.9, labelled=known)
    assert isinstance(given, sp.csr_array)
    np.testing.assert_array_equal(given.toarray(), fitted.matrix(150).toarray())
    assert given.nnz > 0


@every_relation
def test_a_sparse_matrix_needs_no_square_array(
    relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make_graph(400, 0)
    whole = relation.matrix(graph, quantile=0.99)
    monkeypatch.setattr(blocks, "CPU_BLOCK", 4 * 400 * 64)
    monkeypatch.setattr(arrays, "PAIRS_PER_CALL", 7)
    with LargestTensor() as largest:  # type: ignore[no-untyped-call]
        blockwise = relation.matrix(graph, quantile=0.99)
    assert isinstance(whole, sp.csr_array)
    assert isinstance(blockwise, sp.csr_array)
    np.testing.assert_array_equal(blockwise.toarray(), whole.toarray())
    assert largest.entries <= 2 * 64 * 400 < 400 * 400
    pairs = np.random.default_rng(0).integers(400, size=(2, 50))
    expected = relation.matrix(graph)[tuple(pairs)]
    np.testing.assert_array_equal(relation.pairs(graph, pairs), expected)


def test_every_kind_of_graph_is_taken() -> None:
    expected = Link().matrix(GRAPH)
    for graph in (GRAPH.to_pyg(), GRAPH.to_networkx(), TrainingView.of(GRAPH)):
        np.testing.assert_array_equal(Link().matrix(graph), expected)
    with pytest.raises(UsageError, match=r"dict is no graph"):
        Link().matrix({})


# Labels


def labels_read(labelled: Any) -> np.ndarray:
    return np.asarray(LabelDistribution().matrix(GRAPH, labelled=labelled))


def test_label_relations_read_all_labels_or_those_that_are_named() -> None:
    every = all_rows(LabelDistribution(), TrainingView.of(GRAPH, np.arange(30)))
    some = all_rows(LabelDistribution(), TrainingView.of(GRAPH, [1, 5, 9]))
    assert (every != some).any()
    np.testing.assert_array_equal(labels_read(None), every)
    np.testing.assert_array_equal(labels_read([1, 5, 9]), some)
    np.testing.assert_array_equal(labels_read(np.isin(np.arange(30), [1, 5, 9])), some)


def test_a_mask_of_pyg_says_which_labels_may_be_read() -> None:
    data = GRAPH.to_pyg()
    data.train_mask = torch.arange(GRAPH.num_nodes) % 3 == 0
    relation = LabelDistribution()
    expected = relation.matrix(GRAPH, labelled=data.train_mask)
    np.testing.assert_array_equal(relation.matrix(data), expected)
    assert (np.asarray(relation.matrix(data)) != np.asarray(relation.matrix(GRAPH))).any()
    every = np.ones(GRAPH.num_nodes, bool)  # what is asked for comes first
    np.testing.assert_array_equal(relation.matrix(data, labelled=every), relation.matrix(GRAPH))


def test_a_relation_that_does_not_say_so_gets_no_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    prepare = Link.prepare

    def watched(self: Link, view: TrainingView) -> Any:
        seen.append(view.labels)
        return prepare(self, view)

    monkeypatch.setattr(Link, "prepare", watched)
    Link().rows(GRAPH, [0])
    assert (seen[0] == -1).all()


def test_a_view_has_its_own_labels() -> None:
    view = TrainingView.of(GRAPH, [1, 5, 9])
    np.testing.assert_array_equal(LabelDistribution().matrix(view), labels_read([1, 5, 9]))
    with pytest.raises(UsageError, match=r"A TrainingView has the labels .*leave out labelled="):
        LabelDistribution().matrix(view, labelled=[1])


# Refusals


def test_what_the_graph_does_not_have_is_named() -> None:
    unlabelled = Graph.from_arrays(np.eye(4), [[0, 1], [1, 2]], name="bare")
    match = r"Relation 'label-distribution' reads labels, and the graph 'bare' has none: choose"
    with pytest.raises(DataError, match=match):
        LabelDistribution().rows(unlabelled, [0])
    with pytest.raises(DataError, match="has none among labelled="):
        LabelDistribution().rows(GRAPH, [0], labelled=[])
    no_links = Graph.from_arrays(np.eye(4), labels=[0, 1, 0, 1])
    with pytest.raises(DataError, match="'link' reads links, and "):
        Link().thresholds(no_links)
    assert LABELS not in Link().reads


@pytest.mark.parametrize(
    ("nodes", "match"),
    [
        ([0, 30, 31, 30], r"nodes must be numbers from 0 to 29, .*not 30, 31\."),
        ([-1], "not -1"),
        ([[0, 1]], r"nodes must be node numbers \[b\] or a mask \[30\], not .* \[1, 2\]"),
        ([0.5], "not an array of float64"),
        ([True, False], r"a mask \[30\], not an array of bool \[2\]"),
        (["a"], "not an array of <U1"),
    ],
)
def test_wrong_nodes_are_named(nodes: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        Link().rows(GRAPH, nodes)
    with pytest.raises(UsageError, match=match):
        Link().thresholds(GRAPH, nodes)
    with pytest.raises(UsageError, match=match.replace("nodes must", "labelled must")):
        labels_read(nodes)


@pytest.mark.parametrize(
    ("pairs", "match"),
    [
        ([0, 1], r"pairs must be node numbers \[2, n\]"),
        ([[0, 1, 2]], r"not an array of int64 \[1, 3\]"),
        ([[0.0], [1.0]], "not an array of float64"),
        ([[0], [1, 2]], "pairs cannot be read as an array"),
        ([[0], [30]], "pairs must be numbers from 0 to 29, .*not 30"),
    ],
)
def test_wrong_pairs_are_named(pairs: Any, match: str) -> None:
    with pytest.raises(XTCLError, match=match):
        Link().pairs(GRAPH, pairs)


def test_a_matrix_larger_than_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "memory_there", lambda device: 4 * 30 * 30 - 1)
    with pytest.raises(UsageError, match=r"All similarities of 30 nodes .*give quantile=0\.99"):
        Link().matrix(GRAPH)
    assert sp.issparse(Link().matrix(GRAPH, quantile=0.99))


@pytest.mark.parametrize("quantile", [-0.1, 1.0, 99, "a", True])
def test_no_quantile_outside_0_to_1(quantile: Any) -> None:
    for call in (Link().matrix, Link().thresholds):
        with pytest.raises(UsageError, match=rf"quantile={quantile} must be a number in \[0, 1\)"):
            call(GRAPH, quantile=quantile)


def test_one_node_and_none() -> None:
    assert PageRank().rows(GRAPH, 3).shape == (1, 30)
    assert PageRank().rows(GRAPH, []).shape == (0, 30)
    assert PageRank().pairs(GRAPH, np.zeros((2, 0))).shape == (0,)
    assert PageRank().thresholds(GRAPH, []).shape == (0,)
