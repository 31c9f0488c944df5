"""Predictions, embeddings and explanations name the nodes as the tables do."""

from __future__ import annotations

import numpy as np
import pytest
from answer_runs import CLASSES, FIRST, fitted, name, run_folder

from xtcl import XTCL
from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.inference.explain import explain_pair
from xtcl.inference.predict import class_names


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
    frame = fitted("links").embedding_frame()
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
    told = model.explain_node(u)
    frame = model.predict_frame()
    assert told.node.predicted == frame["predicted"].iloc[u]
    assert sum(told.chances.values()) == pytest.approx(1, abs=1e-5)
    assert [pair.other.node for pair in told.positives] == [
        name(v) for v in model.positives_[u] if v >= 0
    ]
    assert all(pair.is_positive and pair.reasons for pair in told.positives)
    assert {near.node for near in told.neighbours} == {
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
