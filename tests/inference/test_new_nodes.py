"""Nodes that come after a fit from a graph: the same columns, and old answers that stay."""

from __future__ import annotations

from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from small_runs import small_graph, small_model, small_split

from xtcl.errors import DataError, UsageError
from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.graph.subgraph import subgraph
from xtcl.nn.encoder import encoder_inputs

OLD = 60
WHOLE = small_graph(70)
SEEN = subgraph(WHOLE, np.arange(OLD))
ATTRIBUTES = np.asarray(WHOLE.attributes)[OLD:]
LINKS = WHOLE.edges[:, (WHOLE.edges >= OLD).any(axis=0)]


def with_links_to(graph: Graph, further: list[list[int]]) -> Graph:
    return graph.with_edges(np.concatenate([graph.edges, further], axis=1))


@cache
def fitted(task: str = "nodes") -> XTCL:
    graph = Graph.from_arrays(SEEN.attributes, SEEN.edges, SEEN.labels)
    return small_model(task, epochs=3).fit(graph, small_split(graph, task))


def forms() -> dict[str, tuple[Any, Any]]:
    """The same new nodes in every form."""
    return {
        "graph": (WHOLE, None),
        "pyg": (WHOLE.to_pyg(), None),
        "networkx": (WHOLE.to_networkx(), None),
        "arrays": (ATTRIBUTES, LINKS),
        "tensors": (torch.tensor(ATTRIBUTES), torch.tensor(np.hstack([LINKS, LINKS[::-1]]))),
        "sparse": (sparse.csr_array(ATTRIBUTES), LINKS.tolist()),
    }


@pytest.mark.parametrize("form", forms())
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_they_are_what_the_encoder_sees_in_the_grown_graph(task: str, form: str) -> None:
    model = fitted(task)
    asked: Any = [0, 1, 2, 3] if task == "nodes" else [[0, 1], [2, 3]]
    before = model.embedding_.copy(), model.predict_proba(asked)
    full = model.embed_new(*forms()[form], full=True)
    edges = np.concatenate([model.training_data_.graph.edges, LINKS], axis=1)
    larger = Graph.from_arrays(WHOLE.attributes, edges)
    with torch.no_grad():
        expected = model.encoder_(*encoder_inputs(larger, torch.device("cpu")))[OLD:].numpy()
    np.testing.assert_allclose(full.to_numpy(), expected, atol=1e-6)
    compact = model.embed_new(*forms()[form])
    assert compact.index.tolist() == list(range(OLD, 70))
    assert compact.columns.tolist() == model.embedding_frame().columns.tolist()
    np.testing.assert_allclose(compact, model.compact_map_.apply(expected), atol=1e-5)
    np.testing.assert_array_equal(model.embedding_, before[0])
    np.testing.assert_array_equal(model.predict_proba(asked), before[1])


def test_predictions_of_new_nodes_and_of_old_ones() -> None:
    model = fitted()
    before = model.predict_frame()
    frame = model.predict_new(WHOLE)
    assert frame.columns.tolist() == before.columns.tolist()
    assert frame.equals(model.predict_new(ATTRIBUTES, LINKS))
    assert WHOLE.labels is not None
    assert (frame["predicted"].to_numpy() == WHOLE.labels[OLD:]).mean() > 0.5
    assert model.predict_frame().equals(before)
    assert model.predict_new(ATTRIBUTES).index.tolist() == list(range(OLD, 70))  # without links


def test_ids_of_a_larger_graph_name_the_rows() -> None:
    names = [f"n{u}" for u in range(70)]

    def named(graph: Graph, ids: list[str]) -> Graph:
        return Graph.from_arrays(graph.attributes, graph.edges, graph.labels, node_ids=ids)

    model = small_model(epochs=1).fit(named(SEEN, names[:OLD]))
    assert model.embed_new(named(WHOLE, names)).index.tolist() == names[OLD:]
    assert model.embed_new(WHOLE.to_pyg()).index.tolist() == list(range(OLD, 70))
    with pytest.raises(DataError, match=r"other ids than the fit at the nodes 0, 1, "):
        model.embed_new(named(WHOLE, names[::-1]))


def test_test_links_of_a_fit_for_links_are_not_read() -> None:
    model = fitted("links")
    assert model.training_data_.graph.num_edges < SEEN.num_edges
    hidden = with_links_to(WHOLE, [[0], [59]])
    assert model.embed_new(hidden).equals(model.embed_new(WHOLE))


def test_without_attributes_an_adjacency_matrix_grows() -> None:
    model = small_model(epochs=2).fit(Graph.from_scipy(SEEN.adjacency, labels=SEEN.labels))
    rows = model.embed_new(WHOLE.adjacency)
    assert rows.columns.tolist() == model.embedding_frame().columns.tolist()
    assert rows.equals(model.embed_new(np.zeros((10, 0)), LINKS))
    with pytest.raises(DataError, match=r"The new nodes 60, 61, .* have no links"):
        model.embed_new(np.zeros((10, 0)))


def changed(graph: Graph) -> Graph:
    attributes = np.array(graph.attributes)
    attributes[3] += 1
    return Graph.from_arrays(attributes, graph.edges)


WRONG: dict[str, tuple[tuple[Any, ...], str]] = {
    "too small": ((SEEN,), r"has 60 nodes, and a larger graph has the 60 nodes of the fit first"),
    "other attributes": ((changed(WHOLE),), r"other attributes than the fit at the nodes 3, and"),
    "fewer columns": (
        (Graph.from_arrays(np.ones((70, 2)), WHOLE.edges),),
        "have 2 attributes, and those of the fit have 16",
    ),
    "a link is missing": (
        (WHOLE.with_edges(WHOLE.edges[:, 1:]),),
        r"lacks 1 link\(s\) of the fit, the first between the nodes 0 and",
    ),
    "a link between old nodes": (
        (with_links_to(WHOLE, [[0], [59]]),),
        r"lead from a node of the fit to another \(0 and 59 are the first\)",
    ),
    "edges beside a graph": ((WHOLE, LINKS), "has their links already: leave out edges"),
    "a path": (("new.csv",), "fit it from tables .* or give a graph of the old and the new nodes"),
    "a frame": ((pd.DataFrame({"a": [1]}),), "are a DataFrame, and this model was fitted without"),
    "old nodes in arrays": ((ATTRIBUTES, [[0], [1]]), r"\(0 and 1 are the first\)"),
    "links to nowhere": ((ATTRIBUTES, [[0], [70]]), "name the nodes 70: .* the new ones 60 to 69"),
    "links by row": ((ATTRIBUTES, LINKS.T), "one edge per row: transpose it"),
    "one row": ((ATTRIBUTES[0], LINKS), r"must have the shape \[V, D\], not \[16\]"),
    "no row": ((ATTRIBUTES[:0],), "There is no new node"),
    "not finite": ((ATTRIBUTES * np.nan,), "finite"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_said(case: str) -> None:
    given, told = WRONG[case]
    for method in (fitted().embed_new, fitted().predict_new):
        with pytest.raises((DataError, UsageError), match=told) as refused:
            method(*given)
        assert str(refused.value).endswith(".")


def test_nodes_that_were_reordered_are_refused() -> None:
    links = nx.Graph([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a"), ("a", "c")])
    for node, kind in zip(links, "xyxyx", strict=True):
        links.nodes[node]["label"] = kind
    model = small_model(epochs=1).fit(links)
    larger = nx.Graph(links)
    larger.add_edge("f", "a")
    assert model.embed_new(larger).index.tolist() == ["f"]
    with pytest.raises(DataError, match="other ids than the fit at the nodes 0, 1"):
        model.embed_new(nx.Graph([("f", "a"), *links.edges]))
