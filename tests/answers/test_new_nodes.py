"""Nodes that come after the fit, without another fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from answer_runs import CLASSES, FIRST, fitted, name, run_folder, tables, write_rows
from scipy import sparse
from small_runs import small_graph, small_model

from xtcl import XTCL, Graph, read_tables
from xtcl.errors import DataError, UsageError
from xtcl.graph.subgraph import with_nodes
from xtcl.nn.encoder import encoder_inputs

NEW = [name(u) for u in range(FIRST, 80)]


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_they_are_what_the_encoder_sees_in_the_grown_graph(task: str) -> None:
    model = fitted(task)
    frame = model.embed_new(*tables().new)
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
    larger = Graph.from_arrays(
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
    thin = Graph.from_arrays(sparse.csr_array(np.asarray(dense.attributes)), dense.edges)
    further = np.ones((2, 16), np.float32)
    links = np.array([[0, 20], [20, 21]])
    one, other = with_nodes(dense, further, links), with_nodes(thin, further, links)
    assert sparse.issparse(other.attributes)
    assert one.fingerprint() == other.fingerprint()
    assert (one.num_nodes, one.num_edges) == (22, dense.num_edges + 2)
