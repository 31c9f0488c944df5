"""Predictions and explanations name the nodes as the tables do, also new nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from answer_runs import CLASSES, FIRST, fitted, name, run_folder, tables, write_rows
from scipy import sparse
from small_runs import small_graph, small_model

from xtcl import XTCL, read_tables
from xtcl import Graph as GraphNewNodes
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.subgraph import with_nodes
from xtcl.inference.explain import explain_pair
from xtcl.inference.predict import class_names
from xtcl.nn.encoder import encoder_inputs


def test_a_row_for_each_id_and_the_chances_of_the_model() -> None:
    model = fitted("nodes")
    frame = model.predict_frame()
    assert frame.index.tolist() == [name(u) for u in range(FIRST)]
    assert frame.columns.tolist() == [
        "predicted",
        "probability",
        "known",
        *sorted(f"p_{c}" for c in CLASSES),
    ]
    assert frame["predicted"].tolist() == model.predict().tolist()
    chances = frame.filter(like="p_").to_numpy()
    np.testing.assert_allclose(chances, model.predict_proba(), atol=1e-6)
    np.testing.assert_allclose(chances.max(axis=1), frame["probability"])
    known = model.training_data_.labelled
    assert frame["known"].notna().to_numpy().nonzero()[0].tolist() == known.tolist()


def test_a_loaded_run_says_the_same() -> None:
    loaded = XTCL.load(run_folder("nodes"))
    assert loaded.predict_frame().equals(fitted("nodes").predict_frame())
    assert loaded.embedding_frame().equals(fitted("nodes").embedding_frame())
    assert loaded.explain_node(3) == fitted("nodes").explain_node(3)


def test_embeddings_by_id() -> None:
    frame = fitted("links").embedding_frame(full=True)
    assert frame.index[3] == "=cmd()"
    np.testing.assert_array_equal(frame.to_numpy(), fitted("links").embedding_)


def test_classes_that_are_integers_stay_integers_and_others_become_text() -> None:
    edges = [[0, 1], [1, 2]]
    for classes, expected in (
        ((1, 7), [1, 7]),
        ((1, "x"), ["1", "x"]),
        ((True, False), ["True", "False"]),
    ):
        graph = Graph.from_arrays(edges=edges, labels=[0, 1, -1], classes=classes)
        assert class_names(graph).tolist() == expected


def test_a_node_is_explained_by_what_the_fit_found() -> None:
    model = fitted("nodes")
    u = next(int(v) for v in range(FIRST) if (model.positives_[v] >= 0).any())
    explanation = model.explain_node(u)
    frame = model.predict_frame()
    assert explanation.node.predicted == frame["predicted"].iloc[u]
    assert sum(explanation.chances.values()) == pytest.approx(1, abs=1e-5)
    assert [pair.other.node for pair in explanation.positives] == [
        name(v) for v in model.positives_[u] if v >= 0
    ]
    assert all(pair.is_positive and pair.reasons for pair in explanation.positives)
    assert {near.node for near in explanation.neighbours} == {
        name(v) for v in model.training_data_.graph.adjacency[[u]].indices.tolist()
    }


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_the_weights_of_a_pair_add_up(task: str) -> None:
    model = fitted(task)
    pair = explain_pair(model, 3, 8)
    odds = pair.base + sum(signal.weight for signal in pair.signals)
    assert pair.probability == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-5)
    assert len(pair.pattern) == len(pair.signals) == len(model.sampler_.relations_)
    assert (pair.node.node, pair.other.node) == ("=cmd()", "'twas")
    assert (pair.link_score is None) == (task == "nodes")


def test_ids_are_found_and_a_similar_one_is_named() -> None:
    model = fitted("nodes")
    assert [model.node_number(name(u)) for u in (0, 3, 42)] == [0, 3, 42]
    assert [model.node_number("'" + name(u)) for u in (3, 5, 8)] == [3, 5, 8]  # as CSV has them
    with pytest.raises(UsageError, match="no node ''n0' among"):
        model.node_number("'n0")
    with pytest.raises(UsageError, match=r"no node 'n422' among the 70 nodes.*Did you mean 'n4"):
        model.node_number("n422")


def test_a_graph_without_ids_is_named_by_number() -> None:
    from small_runs import small_graph, small_model

    model = small_model().fit(small_graph(40))
    assert model.predict_frame().index.tolist() == list(range(40))
    assert model.node_number(7) == model.node_number("7") == 7


def test_a_model_for_links_has_no_classes() -> None:
    with pytest.raises(UsageError, match="fitted to predict links, and has no classes"):
        fitted("links").predict_frame()


# Nodes that come after the fit, without another fit.

NEW = [name(u) for u in range(FIRST, 80)]


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_they_are_what_the_encoder_sees_in_the_grown_graph(task: str) -> None:
    model = fitted(task)
    frame = model.embed_new(*tables().new, full=True)
    assert frame.index.tolist() == NEW
    # The same graph, put together by hand: the training links, and all of the new nodes.
    whole, seen = small_graph(), model.training_data_.graph
    late = whole.edges[:, (whole.edges >= FIRST).any(axis=0)]
    encoding = seen.encoding
    assert encoding is not None
    scaled = np.zeros((len(NEW), seen.num_attributes), np.float32)
    for at, column in enumerate(encoding.used):
        raw = np.asarray(whole.attributes)[FIRST:, int(column.name[1:])]
        scaled[:, at] = (raw - column.center) / column.scale
    larger = GraphNewNodes.from_arrays(
        np.concatenate([np.asarray(seen.attributes), scaled]),
        np.concatenate([seen.edges, late], axis=1),
    )
    with torch.no_grad():
        expected = model.encoder_(*encoder_inputs(larger, torch.device("cpu")))
    np.testing.assert_allclose(frame.to_numpy(), expected[FIRST:].numpy(), atol=1e-6)


def test_old_answers_stay_and_new_ones_are_mostly_right() -> None:
    model = XTCL.load(run_folder("nodes"))
    before = model.predict_frame()
    frame = model.predict_new(*tables().new)
    assert model.predict_frame().equals(before)
    assert frame.columns.tolist() == before.columns.tolist()
    assert frame["known"].isna().all()
    labels = small_graph().labels
    assert labels is not None
    truth = [CLASSES[code] for code in labels[FIRST:]]
    assert (frame["predicted"] == truth).mean() > 0.5
    np.testing.assert_allclose(frame.filter(like="p_").sum(axis=1), 1, atol=1e-5)


def test_a_twin_of_a_node_of_the_fit_gets_about_what_that_has() -> None:
    model = fitted("nodes")
    nodes = pd.read_csv(tables().paths[0]).drop(columns="kind")
    edges = pd.read_csv(tables().paths[1])
    twin = nodes[nodes["id"] == "n20"].assign(id="twin")
    near = edges[(edges == "n20").any(axis=1)].replace("n20", "twin")
    found = model.predict_new(twin, near).filter(like="p_").loc["twin"]
    had = model.predict_frame().filter(like="p_").loc["n20"]
    np.testing.assert_allclose(found, had, atol=0.25)
    assert found.idxmax() == had.idxmax()


def test_frames_and_no_edges_at_all() -> None:
    frame = pd.read_csv(tables().new[0])
    model = fitted("nodes")
    alone = model.predict_new(frame)
    assert alone.index.tolist() == NEW
    assert not alone.equals(model.predict_new(*tables().new))


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    model = fitted("nodes")
    nodes, _ = tables().new
    old = write_rows(tmp_path / "old.csv", ["from", "to"], [["n70", "n1"], ["=cmd()", "n1"]])
    with pytest.raises(DataError, match=r"link two nodes of the fit .'=cmd\(\)' and 'n1'"):
        model.predict_new(nodes, old)
    lost = write_rows(tmp_path / "lost.csv", ["from", "to"], [["n70", "n999"]])
    with pytest.raises(DataError, match="line 2: there is no node 'n999' in the fit or among"):
        model.predict_new(nodes, lost)
    with pytest.raises(DataError, match=r"'=cmd\(\)'.* are nodes of the fit already"):
        model.predict_new(tables().paths[0])
    lacking = write_rows(tmp_path / "lacking.csv", ["id", "w0"], [["a", 1]])
    with pytest.raises(DataError, match="has no column 'w1'"):
        model.predict_new(lacking)
    with pytest.raises(UsageError, match="has no classes"):
        fitted("links").predict_new(nodes)
    with pytest.raises(UsageError, match="fit it from tables"):
        small_model().fit(small_graph(40)).predict_new(nodes)


def test_without_attributes_a_new_node_needs_links() -> None:
    edges = pd.DataFrame({"from": list("abcdea"), "to": list("bcdefc")})
    nodes = pd.DataFrame({"id": list("abcdef"), "kind": ["x", "y"] * 3})
    model = small_model(epochs=2).fit(read_tables(nodes, edges, label="kind"))
    new, link = pd.DataFrame({"id": ["g"]}), pd.DataFrame({"from": ["g"], "to": ["a"]})
    assert model.predict_new(new, link).index.tolist() == ["g"]
    with pytest.raises(DataError, match="The new nodes 'g' have no links"):
        model.predict_new(new)


def test_a_sparse_graph_grows_sparse() -> None:
    dense = small_graph(20)
    thin = GraphNewNodes.from_arrays(sparse.csr_array(np.asarray(dense.attributes)), dense.edges)
    further = np.ones((2, 16), np.float32)
    links = np.array([[0, 20], [20, 21]])
    one, other = with_nodes(dense, further, links), with_nodes(thin, further, links)
    assert sparse.issparse(other.attributes)
    assert one.fingerprint() == other.fingerprint()
    assert (one.num_nodes, one.num_edges) == (22, dense.num_edges + 2)
