"""XTCL as a transform of PyG and as a transformer of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from small_runs import small_graph, small_model, small_split
from torch_geometric.data import Data
from torch_geometric.transforms import Compose, NormalizeFeatures

from xtcl import XTCL, AddXTCLEmbedding, NodeEmbedder
from xtcl.errors import DataError, NotFittedError, UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit

pytestmark = pytest.mark.slow


GRAPH = small_graph()


NODES = np.arange(GRAPH.num_nodes)[:, None]


assert GRAPH.labels is not None


LABELS = np.array(["cat", "dog", "owl"])[GRAPH.labels]


def embedder() -> NodeEmbedder:
    return NodeEmbedder(GRAPH, small_model(epochs=3))


FORMS: dict[str, Any] = {
    "graph": GRAPH,
    "pyg": GRAPH.to_pyg(),
    "networkx": GRAPH.to_networkx(),
    "scipy": GRAPH.adjacency,
}


@pytest.mark.parametrize("form", FORMS)
def test_clones_share_the_graph_whatever_it_is(form: str) -> None:
    given = FORMS[form]
    own = NodeEmbedder(given, small_model(epochs=1), full=True).set_output(transform="pandas")
    again = clone(own)
    assert again.graph is given
    assert again.model is not own.model
    assert (again.full, again.model.epochs) == (True, 1)
    assert own.graph is given
    assert "z0" in again.fit(NODES[:20], LABELS[:20]).transform(NODES[:3]).columns
    assert not hasattr(clone(again), "model_")
    search = GridSearchCV(make_pipeline(own), {"nodeembedder__full": [True, False]})
    assert clone(search).estimator[0].graph is given


def test_a_graph_in_the_place_of_x_names_the_embedder() -> None:
    with pytest.raises(UsageError, match=r"Graph 'graph' is no array.* use NodeEmbedder\(graph\)"):
        cross_val_score(XTCL(), Graph.from_arrays(GRAPH.attributes, GRAPH.edges, GRAPH.labels))
    with pytest.raises(UsageError, match="for which X are node numbers and y their labels"):
        GridSearchCV(XTCL(), {"width": [4]}).fit(GRAPH)
    search = GridSearchCV(
        make_pipeline(embedder(), LogisticRegression()), {"nodeembedder__graph": [GRAPH]}, cv=2
    )
    assert search.fit(NODES, LABELS).best_params_["nodeembedder__graph"] is GRAPH


def test_a_pipeline_classifies_nodes_it_was_not_given() -> None:
    pipeline = make_pipeline(embedder(), StandardScaler(), LogisticRegression(max_iter=1000))
    scores = cross_val_score(pipeline, NODES, LABELS, cv=3)
    assert scores.mean() > 0.6
    search = GridSearchCV(pipeline, {"nodeembedder__model__width": [4, 8]}, cv=2)
    assert search.fit(NODES, LABELS).best_params_["nodeembedder__model__width"] in (4, 8)


def test_only_the_labels_given_count() -> None:
    some = NODES[::2]
    one = embedder().fit(some, LABELS[::2]).transform(NODES)
    bare = NodeEmbedder(Graph.from_arrays(GRAPH.attributes, GRAPH.edges), embedder().model)
    np.testing.assert_array_equal(one, bare.fit(some[:, 0], LABELS[::2]).transform(NODES))
    other = embedder().fit(NODES[1::2], LABELS[1::2]).transform(NODES)
    assert not np.array_equal(one, other)


def test_links_need_no_labels_and_a_clone_is_not_fitted() -> None:
    step = NodeEmbedder(GRAPH, small_model("links", epochs=3)).fit(NODES)
    assert step.transform([3, 4]).shape[0] == 2
    with pytest.raises(NotFittedError, match=r"call fit\(nodes, labels\)"):
        clone(step).transform([3])


@pytest.mark.parametrize("nodes", [[-1], [80], [0.5], [[1, 2]]])
def test_what_is_no_node_is_refused(nodes: Any) -> None:
    with pytest.raises(UsageError, match="X must be node numbers from 0 to 79"):
        embedder().fit(nodes, [0])


@pytest.mark.parametrize("unknown", [None, np.nan, "", -1])
def test_an_unknown_label_is_no_class(unknown: Any) -> None:
    assert GRAPH.labels is not None
    kind = object if unknown is None or unknown == "" else float
    given = (LABELS if unknown == "" else GRAPH.labels).astype(kind)
    given[1::2] = unknown
    found = embedder().fit(NODES, given)
    assert len(found.model_.classes_) == 3
    np.testing.assert_array_equal(
        found.transform(NODES), embedder().fit(NODES[::2], given[::2]).transform(NODES)
    )


@pytest.mark.parametrize(
    ("nodes", "labels", "said"),
    [
        (NODES, [None] * 80, "y has no known label"),
        (NODES, np.arange(80) / 7, "classes, not measurements"),
        ([0, 1, 1], [0, 1, 0], "nodes twice, with two labels: 1"),
        ([0, 1, 1], [0, 1, None], "nodes twice, with two labels: 1"),
        ([0, 1], [0], "for 2 nodes in X"),
    ],
)
def test_labels_that_are_none_are_refused(nodes: Any, labels: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        embedder().fit(nodes, labels)


def test_a_node_may_be_drawn_twice() -> None:
    twice = embedder().fit([0, 1, 2, 2], LABELS[[0, 1, 2, 2]]).transform(NODES)
    np.testing.assert_array_equal(twice, embedder().fit([0, 1, 2], LABELS[:3]).transform(NODES))


@pytest.mark.parametrize("model", ["gcn", LogisticRegression()])
def test_a_model_that_is_no_xtcl_is_refused(model: Any) -> None:
    with pytest.raises(UsageError, match=r"model=.* must be an XTCL, such as XTCL\('nodes'\)"):
        NodeEmbedder(GRAPH, model).fit(NODES, LABELS)


def test_the_transform_refuses_what_is_no_data() -> None:
    with pytest.raises(UsageError, match=r"takes a PyG Data, not a Graph: give it graph.to_pyg"):
        AddXTCLEmbedding(**SMALL)(GRAPH)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        (XTCL("nodes", epochs=3), r"by name, AddXTCLEmbedding\(\*\*model\.get_params\(\)\)\.$"),
        (7, r"attr_name=7 is no name of an attribute: give a name, such as 'xtcl_embedding'"),
        ("", r"attr_name='' is no name"),
    ],
)
def test_the_transform_refuses_what_is_no_name(name: Any, remedy: str) -> None:
    with pytest.raises(UsageError, match=remedy):
        AddXTCLEmbedding(name)


def test_the_parameters_of_a_model_go_into_the_transform() -> None:
    model = small_model(**SMALL)
    found = AddXTCLEmbedding(**model.get_params())(GRAPH.to_pyg())
    assert len(found.xtcl_embedding) == GRAPH.num_nodes


def test_the_estimator_ends_a_pipeline() -> None:
    split = small_split(GRAPH, "nodes")
    pipeline = Pipeline([("as it is", "passthrough"), ("xtcl", small_model(epochs=3))])
    pipeline.fit(GRAPH, split)
    alone = small_model(epochs=3).fit(GRAPH, split)
    np.testing.assert_array_equal(pipeline[-1].predict(), alone.predict())


# AddXTCLEmbedding in PyG.

SMALL: dict[str, Any] = {"width": 8, "epochs": 3, "device": "cpu"}


def data_of(train: NodeSplit) -> Data:
    data = small_graph().to_pyg()
    data.train_mask = torch.zeros(data.num_nodes, dtype=torch.bool)
    data.train_mask[torch.from_numpy(train.train.copy())] = True
    return data


def test_it_is_the_embedding_of_the_training_labels_and_no_others() -> None:
    graph = small_graph()
    split = small_split(graph, "nodes")
    assert isinstance(split, NodeSplit)
    data = data_of(split)
    found = AddXTCLEmbedding(**SMALL)(data)
    model = small_model(**SMALL).fit(graph, split)
    assert torch.equal(found.xtcl_embedding, torch.from_numpy(model.compact_embedding_))
    whole = AddXTCLEmbedding(full=True, **SMALL)(data)
    assert torch.equal(whole.xtcl_embedding, torch.from_numpy(model.embedding_))
    assert "xtcl_embedding" not in data  # PyG's transforms work on a copy
    data.y[~data.train_mask] = 0
    again = AddXTCLEmbedding(**SMALL)(data)
    assert torch.equal(again.xtcl_embedding, found.xtcl_embedding)


def test_it_goes_with_other_transforms_and_appends_to_x() -> None:
    data = small_graph().to_pyg()
    width = data.x.shape[1]
    found = Compose([NormalizeFeatures(), AddXTCLEmbedding(None, task="links", **SMALL)])(data)
    assert found.x.shape[0] == data.num_nodes
    assert found.x.shape[1] > width
    assert data.x.shape[1] == width


def test_several_splits_are_refused() -> None:
    data = small_graph().to_pyg()
    data.train_mask = torch.ones(data.num_nodes, 10, dtype=torch.bool)
    with pytest.raises(DataError, match=r"such as train_mask\[:, 0\]"):
        AddXTCLEmbedding(**SMALL)(data)
