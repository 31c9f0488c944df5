"""XTCL on graphs of every kind, with parts of the user's own, and what it says about misuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.metrics import roc_auc_score
from small_runs import small_graph, small_model, small_split
from torch import Tensor, nn

from xtcl.config import FIXED_RULES, EncoderConfig, EnsembleConfig, FitConfig, TrainingConfig
from xtcl.device import pick_device
from xtcl.errors import BudgetError, DataError, UsageError
from xtcl.estimator import XTCL
from xtcl.graph.convert import as_graph
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, link_split, node_split
from xtcl.nn.encoder import encoder_inputs
from xtcl.relations.custom import MatrixRelation
from xtcl.relations.pagerank import PageRank
from xtcl.relations.registry import forget_relation, register_relation
from xtcl.relations.relation import Rows
from xtcl.relations.view import TrainingView
from xtcl.runs.model_files import description_digest
from xtcl.tasks.custom import CustomTask

LINK_RELATIONS = {"link", "pagerank", "jaccard", "topology", "graph-distance"}


class Smooth(nn.Module):
    """A user's own encoder: the mean over neighbours, then a linear map."""

    def __init__(self, columns: int, width: int = 4) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(columns, width, generator=generator))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Embeddings [V, width]."""
        mixed = x.index_add(0, edge_index[0], x[edge_index[1]])
        return mixed @ self.weight


def split_of(graph: Graph) -> NodeSplit:
    return node_split(graph, 0.3)


def relation_set(model: XTCL) -> set[str]:
    return {w.relation for w in model.relation_weights_}


# What can be fitted


def test_predictions_are_the_original_label_values() -> None:
    graph = small_graph()
    assert graph.labels is not None
    named = Graph.from_arrays(
        graph.attributes, graph.edges, np.array(["ant", "bee", "cat"])[graph.labels]
    )
    model = small_model(epochs=30).fit(named, split_of(named))
    assert list(model.classes_) == ["ant", "bee", "cat"]
    predicted = model.predict()
    assert predicted.shape == (80,)
    assert set(predicted) <= {"ant", "bee", "cat"}
    probabilities = model.predict_proba()
    assert probabilities.shape == (80, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], predicted)
    np.testing.assert_array_equal(model.predict([3, 5]), predicted[[3, 5]])
    np.testing.assert_array_equal(model.predict(3), predicted[[3]])
    np.testing.assert_array_equal(model.predict(predicted == "bee"), predicted[predicted == "bee"])
    assert model.predict([]).shape == (0,)
    assert model.score(split_of(named)) > 0.6  # a third would be chance


def test_integer_labels_come_back_as_integers() -> None:
    graph = small_graph()
    assert graph.labels is not None
    numbered = Graph.from_arrays(graph.attributes, graph.edges, graph.labels * 10 + 5)
    predicted = small_model(epochs=2).fit(numbered, split_of(numbered)).predict()
    assert predicted.dtype == np.int64
    assert set(predicted.tolist()) <= {5, 15, 25}


def test_link_answers() -> None:
    graph = block_model(100, num_classes=8, homophily=1.0, attribute_signal=2.0)
    split = link_split(graph)
    model = small_model("links", width=32, epochs=40).fit(graph, split)
    pairs = np.concatenate([split.test, split.test_negatives], axis=1)
    scores, chances = model.decision_function(pairs), model.predict_proba(pairs)
    assert scores.shape == chances.shape == (pairs.shape[1],)
    assert np.isfinite(scores).all()
    assert ((chances >= 0) & (chances <= 1)).all()
    linked = model.predict(pairs)
    assert linked.dtype == bool
    np.testing.assert_array_equal(linked, chances >= 0.5)
    np.testing.assert_allclose(scores, model.decision_function(pairs[::-1]))
    assert model.decision_function(np.zeros((2, 0), dtype=int)).shape == (0,)
    assert model.score(split) > 0.7


def test_a_pyg_graph_is_a_graph() -> None:
    graph = small_graph()
    split = split_of(graph)
    ours = small_model().fit(graph, split)
    pyg = small_model().fit(graph.to_pyg(), split)
    np.testing.assert_array_equal(ours.embedding_, pyg.embedding_)
    assert pyg.score(split) == ours.score(split)
    assert set(pyg.predict().tolist()) <= {0, 1, 2}  # PyG keeps codes only


def test_a_networkx_graph_brings_attributes_and_labels() -> None:
    graph = small_graph()
    split = split_of(graph)
    ours = small_model().fit(graph, split)
    other = small_model().fit(graph.to_networkx(), split)
    np.testing.assert_array_equal(ours.embedding_, other.embedding_)
    np.testing.assert_array_equal(ours.predict(), other.predict())

    class Mine(nx.Graph):  # type: ignore[type-arg]
        """A user's own kind of NetworkX graph."""

    assert as_graph(Mine(graph.to_networkx())).fingerprint() == graph.fingerprint()


def test_a_networkx_graph_with_names_and_nothing_else() -> None:
    bare: nx.Graph[Any] = nx.karate_club_graph()
    for _, _, values in bare.edges(data=True):
        values.clear()
    graph = as_graph(bare)
    assert not graph.has_attributes
    assert graph.labels is None
    named = Graph.from_networkx(bare, label="club")
    model = small_model(epochs=40).fit(named, node_split(named, 0.4))
    assert relation_set(model) == LINK_RELATIONS | {"label-distribution"}
    assert set(model.predict()) == {"Mr. Hi", "Officer"}
    assert small_model("links").fit(bare).embedding_.shape == (34, 8)


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_without_attributes(task: str, encoder: str) -> None:
    graph = small_graph()
    bare = Graph.from_arrays(None, graph.edges, graph.labels)
    split = small_split(bare, task)
    model = small_model(task, encoder).fit(bare, split)
    assert "attribute-similarity" not in relation_set(model)
    assert set(model.sampler_.left_out_) >= {"attribute-similarity", "attribute-distribution"}
    assert 0 <= model.score(split) <= 1


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
def test_without_links_the_attributes_must_do(encoder: str) -> None:
    graph = small_graph()
    lonely = Graph.from_arrays(graph.attributes, None, graph.labels)
    split = split_of(lonely)
    model = small_model(encoder=encoder).fit(lonely, split)
    assert not relation_set(model) & LINK_RELATIONS
    assert "attribute-similarity" in relation_set(model)
    assert 0 <= model.score(split) <= 1
    with pytest.raises(DataError, match=r"0 links"):
        small_model("links").fit(lonely)


def test_without_labels() -> None:
    graph = small_graph()
    bare = Graph.from_arrays(graph.attributes, graph.edges, name="bare")
    with pytest.raises(DataError, match=r"'bare' has no labels.*task='links'"):
        small_model().fit(bare)
    unknown = graph.with_labels(np.full(80, -1))
    with pytest.raises(DataError, match=r"'blocks-80' has no known label to train on"):
        small_model().fit(unknown)
    with pytest.raises(DataError, match=r"two labelled training nodes and got 0"):
        small_model(recipe=FIXED_RULES).fit(unknown)
    model = small_model("links").fit(bare)
    assert "label-distribution" not in relation_set(model)


def test_labels_serve_links_only_where_asked() -> None:
    graph = small_graph()
    split = link_split(graph)
    without, within = (
        small_model("links", use_labels=use).fit(graph, split) for use in (False, True)
    )
    assert "label-distribution" in within.sampler_.left_out_.keys() ^ relation_set(within)
    assert "label-distribution" in relation_set(within)
    assert "label-distribution" not in relation_set(without)


def test_a_class_with_one_training_label_and_a_class_with_none() -> None:
    graph = small_graph()
    assert graph.labels is not None
    where = [np.flatnonzero(graph.labels == label) for label in range(3)]
    train = np.concatenate([where[0][:8], where[1][:1]])
    split = NodeSplit(train, np.setdiff1d(np.arange(80), train), 0)
    model = small_model().fit(graph, split)
    probabilities = model.predict_proba()
    np.testing.assert_array_equal(probabilities[:, 2], 0.0)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert list(model.classes_) == ["class 0", "class 1", "class 2"]
    assert "class 2" not in model.predict()
    assert 0 <= model.score(split) <= 1


def test_a_single_class_is_refused() -> None:
    graph = small_graph()
    assert graph.labels is not None
    train = np.flatnonzero(graph.labels == 1)[:6]
    split = NodeSplit(train, np.setdiff1d(np.arange(80), train), 0)
    with pytest.raises(DataError, match="The 6 training labels are of 1 class"):
        small_model().fit(graph, split)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_disconnected_graph_with_isolated_nodes(task: str) -> None:
    one, other = small_graph(40), small_graph(40, seed=9)
    assert one.labels is not None
    assert other.labels is not None
    attributes = np.concatenate([one.attributes, other.attributes, np.zeros((5, 16))])
    labels = np.concatenate([one.labels, other.labels, [0, 1, 2, 0, -1]])
    graph = Graph.from_arrays(
        attributes, np.concatenate([one.edges, other.edges + 40], axis=1), labels
    )
    split = small_split(graph, task)
    model = small_model(task).fit(graph, split)
    assert np.isfinite(model.embedding_).all()
    assert 0 <= model.score(split) <= 1


def test_sparse_attributes_are_the_same_attributes() -> None:
    from scipy import sparse

    graph = small_graph()
    thin = Graph.from_arrays(sparse.csr_array(graph.attributes), graph.edges, graph.labels)
    split = split_of(graph)
    dense, slim = (small_model().fit(g, split) for g in (graph, thin))
    np.testing.assert_allclose(dense.embedding_, slim.embedding_, atol=1e-5)


def test_without_a_split_everything_known_trains() -> None:
    graph = small_graph()
    assert graph.labels is not None
    some = graph.with_labels(np.where(np.arange(80) % 4 == 0, -1, graph.labels))
    nodes = small_model().fit(some)
    np.testing.assert_array_equal(nodes.training_data_.labelled, np.flatnonzero(np.arange(80) % 4))
    assert nodes.predict().shape == (80,)
    links = small_model("links").fit(graph)
    np.testing.assert_array_equal(links.training_data_.graph.edges, graph.edges)
    assert links.training_data_.negatives.shape == graph.edges.shape


def pyg_splits(train: np.ndarray, test: np.ndarray) -> Any:
    data = small_graph().to_pyg()
    data.train_mask, data.test_mask = torch.zeros(2, 80, dtype=torch.bool)
    data.train_mask[torch.from_numpy(train.copy())] = True
    data.test_mask[torch.from_numpy(test.copy())] = True
    return data


def test_masks_of_a_data_are_its_split() -> None:
    graph = small_graph()
    split = split_of(graph)
    data = pyg_splits(split.train, split.test[5:])  # five nodes for validation
    ours = small_model(epochs=1).fit(graph, split)
    model = small_model(epochs=1).fit(data)
    np.testing.assert_array_equal(model.embedding_, ours.embedding_)
    np.testing.assert_array_equal(model.predict_proba(), ours.predict_proba())
    assert isinstance(model.split_, NodeSplit)
    np.testing.assert_array_equal(model.split_.test, split.test[5:])
    expected = ours.score(NodeSplit(split.train, split.test[5:], None))
    for given in (model.split_, data, data.test_mask, data.test_mask.numpy(), split.test[5:]):
        assert model.score(given) == expected
    with pytest.raises(UsageError, match="24 test nodes of this split are training nodes"):
        model.score(data.train_mask)
    with pytest.raises(UsageError, match="no test_mask"):
        model.score(graph.to_pyg())
    with pytest.raises(DataError, match="test_mask must be booleans, one a node, or node numbers"):
        model.score(graph)
    del model.graph_  # as in a loaded model
    assert model.score(data) == expected
    data.y[~data.train_mask] = (data.y[~data.train_mask] + 1) % 3
    other = small_model(epochs=1).fit(data)
    np.testing.assert_array_equal(other.predict_proba(), model.predict_proba())


def test_a_mask_alone_trains_saves_and_reports(tmp_path: Path) -> None:
    graph = small_graph()
    split = split_of(graph)
    mask = np.isin(np.arange(80), split.train)
    model = small_model(epochs=1).fit(graph, mask)
    expected = small_model(epochs=1).fit(graph, split)
    np.testing.assert_array_equal(model.predict_proba(), expected.predict_proba())
    assert model.score(~mask) == model.score(split) == expected.score(split)
    with pytest.raises(UsageError, match="This split has no test side"):
        model.score(model.split_)
    model.save(tmp_path / "run")
    loaded = XTCL.load(tmp_path / "run")
    assert loaded.split_ is not None
    assert loaded.split_.seed is None
    assert loaded.score(~mask, graph) == model.score(~mask)
    loaded.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "24 nodes trained, 0 held out" in page


def test_a_split_of_links_from_pyg(tmp_path: Path) -> None:
    from torch_geometric.transforms import RandomLinkSplit

    graph = small_graph()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        train, _, test = RandomLinkSplit(0.1, 0.3, is_undirected=True)(graph.to_pyg())
    split = LinkSplit.from_pyg(train, test)
    model = small_model("links", epochs=1).fit(graph, split)
    np.testing.assert_array_equal(model.training_data_.graph.edges, split.train)
    alone = small_model("links", epochs=1).fit(train)  # its links are the training links
    np.testing.assert_array_equal(alone.training_data_.graph.edges, split.train)
    pairs = test.edge_label_index.numpy()
    right = roc_auc_score(test.edge_label.numpy(), model.decision_function(pairs))
    assert model.score(test) == pytest.approx(right, abs=0.02)  # PyG repeats a pair here and there
    with pytest.raises(UsageError, match="no split of links"):
        model.score([0, 1])
    model.save(tmp_path)
    assert XTCL.load(tmp_path).score(test) == model.score(test)


def test_a_sparse_matrix_is_a_graph() -> None:
    graph = small_graph()
    bare = Graph.from_arrays(None, graph.edges)
    one, other = (small_model("links", epochs=1).fit(g) for g in (graph.adjacency, bare))
    np.testing.assert_array_equal(one.embedding_, other.embedding_)


def test_a_drawn_seed_is_kept_so_that_the_fit_can_be_repeated(tmp_path: Path) -> None:
    graph = small_graph()
    split = split_of(graph)
    model = small_model(epochs=1, random_state=None)
    first = model.fit(graph, split).random_state_
    embedding = model.embedding_
    assert model.fit(graph, split).random_state_ != first
    assert not np.array_equal(model.embedding_, embedding)
    assert model.random_state is None
    again = small_model(epochs=1, random_state=first).fit(graph, split)
    np.testing.assert_array_equal(again.embedding_, embedding)
    state = np.random.RandomState(first)
    drawn = small_model(epochs=1, random_state=state).fit(graph, split)
    drawn.save(tmp_path)
    loaded = XTCL.load(tmp_path)
    assert loaded.random_state == loaded.random_state_ == drawn.random_state_
    assert loaded.explain(0, 1) == drawn.explain(0, 1)
    drawn.report(tmp_path / "page.html")
    assert str(drawn.random_state_) in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_explain_adds_up() -> None:
    graph = small_graph()
    model = small_model().fit(graph, split_of(graph))
    u = 3
    v = int(model.positives_[u, 0])
    explanation = model.explain(u, v)
    assert (explanation.u, explanation.v) == (u, v)
    assert {signal.relation for signal in explanation.signals} == relation_set(model)
    weights = {w.relation: w.weights for w in model.relation_weights_}
    for signal in explanation.signals:
        assert signal.weight == weights[signal.relation][signal.level]
    assert explanation.score == pytest.approx(
        explanation.base + sum(s.weight for s in explanation.signals)
    )
    assert explanation.probability == pytest.approx(1 / (1 + np.exp(-explanation.score)))
    assert any(
        signal.level for signal in explanation.signals
    )  # a positive is above for some relation
    strengths = [abs(signal.weight) for signal in explanation.signals]
    assert strengths == sorted(strengths, reverse=True)
    with pytest.raises(UsageError, match="Node 80 does not exist"):
        model.explain(0, 80)


# Parts of the user's own


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_an_own_module_is_trained_in_a_copy(task: str, tmp_path: Path) -> None:
    graph = small_graph()
    split = small_split(graph, task)
    module = Smooth(16)
    before = module.weight.detach().clone()
    model = small_model(task, module, width=None).fit(graph, split)
    assert torch.equal(module.weight, before)
    trained = model.encoder_.state_dict()["members.0.weight"]
    assert not torch.equal(trained, before)
    # Its own output is the embedding: nothing beside it, and no other length.
    with torch.no_grad():
        module.weight.copy_(trained)
        output = module(*encoder_inputs(model.training_data_.graph, torch.device("cpu")))
        module.weight.copy_(before)
    np.testing.assert_array_equal(model.embedding_, output.numpy())
    assert model.embedding_.shape == (80, 4)
    model.save(tmp_path)
    loaded = XTCL.load(tmp_path, encoder=Smooth(16))
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    assert torch.equal(loaded.encoder_.state_dict()["members.0.weight"], trained)
    with pytest.raises(UsageError, match=r"XTCL\.load\(folder, encoder=ThatModule"):
        XTCL.load(tmp_path)
    with pytest.raises(DataError, match=r"do not fit the encoder"):
        XTCL.load(tmp_path, encoder=Smooth(16, width=5))


@pytest.mark.parametrize("name", ["custom", "own"])
def test_an_own_module_is_read_under_its_old_and_its_new_name(name: str, tmp_path: Path) -> None:
    model = small_model("nodes", Smooth(16), width=None).fit(small_graph())
    model.save(tmp_path)
    path = tmp_path / "model" / "model.json"
    described = json.loads(path.read_text())
    assert described["parameters"]["encoder"] == "custom"
    described["parameters"]["encoder"] = name  # "own" in release 0.1
    described["digest"] = description_digest(described)
    path.write_text(json.dumps(described))
    loaded = XTCL.load(tmp_path, encoder=Smooth(16))
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    with pytest.raises(UsageError, match=r"XTCL\.load\(folder, encoder=ThatModule"):
        XTCL.load(tmp_path)


@pytest.mark.parametrize("labelled", [True, False])
def test_an_own_task_needs_an_indicator_only(labelled: bool, tmp_path: Path) -> None:
    graph = small_graph()
    assert graph.labels is not None
    hidden = graph.labels % 2

    def alike(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray(hidden[u][:, None] == hidden[v])

    task = CustomTask(alike, known=np.arange(40))
    if not labelled:
        graph = Graph.from_arrays(graph.attributes, graph.edges)
    model = small_model(task).fit(graph)
    assert ("label-distribution" in relation_set(model)) is labelled
    assert model.embedding_.shape == (80, model.plan_.width(16))
    best = model.relation_weights_[0]
    assert best.precision > np.mean(hidden[:, None] == hidden)  # better than any pair
    assert model.explain(0, 1).signals
    with pytest.raises(UsageError, match="has no head"):
        model.predict()
    with pytest.raises(UsageError, match="has no head"):
        model.predict_proba()
    with pytest.raises(UsageError, match="has no head"):
        model.score(NodeSplit(np.arange(4), np.arange(4, 8), 0))
    model.save(tmp_path)
    np.testing.assert_array_equal(XTCL.load(tmp_path, task=task).embedding_, model.embedding_)
    with pytest.raises(UsageError, match=r"XTCL\.load\(folder, task=ThatTask"):
        XTCL.load(tmp_path)


@pytest.fixture
def same_parity() -> Iterator[str]:
    def prepare(view: TrainingView) -> Rows:
        parity = torch.arange(view.num_nodes) % 2
        return lambda nodes: (parity[nodes][:, None] == parity).float()

    register_relation("same-parity", prepare, title="Same parity")
    yield "same-parity"
    forget_relation("same-parity")


def test_an_own_relation_is_weighed_saved_and_loaded(same_parity: str, tmp_path: Path) -> None:
    graph = small_graph()
    model = small_model(relations=[same_parity, "link"]).fit(graph, split_of(graph))
    assert relation_set(model) == {same_parity, "link"}
    model.save(tmp_path)
    loaded = XTCL.load(tmp_path)
    assert loaded.relation_weights_ == model.relation_weights_
    assert loaded.explain(0, 1) == model.explain(0, 1)
    forget_relation(same_parity)
    with pytest.raises(UsageError, match=r"'same-parity', which is not .*: call register_relation"):
        XTCL.load(tmp_path)


def test_a_matrix_is_weighed_saved_and_loaded(tmp_path: Path) -> None:
    graph = small_graph()
    parity = np.arange(graph.num_nodes) % 2
    same = parity[:, None] == parity
    relation = MatrixRelation(sp.csr_array(same), "same-parity")
    model = small_model(relations=[relation, "link"]).fit(graph, split_of(graph))
    assert model.relation_weights_[0].relation == "same-parity"
    model.save(tmp_path)
    with pytest.raises(UsageError, match=r"'same-parity', which is not .*: call register_relation"):
        XTCL.load(tmp_path)
    register_relation("same-parity", same)
    try:
        loaded = XTCL.load(tmp_path)
        assert loaded.relation_weights_ == model.relation_weights_
        assert loaded.explain(0, 1) == model.explain(0, 1)
    finally:
        forget_relation("same-parity")


def test_a_relation_s_parameters_are_used_saved_and_loaded(tmp_path: Path) -> None:
    graph = small_graph()
    split = split_of(graph)
    models = {
        alpha: small_model(relations=[PageRank(alpha=alpha)]).fit(graph, split)
        for alpha in (0.3, 0.85)
    }
    assert models[0.3].explain(0, 1) != models[0.85].explain(0, 1)
    models[0.3].save(tmp_path)
    loaded = XTCL.load(tmp_path)
    assert loaded.relations == [PageRank(alpha=0.3)]
    assert loaded.explain(0, 1) == models[0.3].explain(0, 1)


def test_relations_may_be_any_iterable() -> None:
    graph = small_graph()
    names = ["link", "jaccard"]
    model = small_model("links", relations=iter(names)).fit(graph, link_split(graph))
    assert relation_set(model) == set(names)


# Misuse


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"task": "edges"}, "There is no task 'edges'"),
        ({"encoder": "gin"}, "There is no encoder 'gin'"),
        ({"sampler": "best"}, "sampler='best' must be 'xtcl' or 'paper'"),
        ({"device": "tpu9"}, "There is no device 'tpu9'"),
        ({"device": "meta"}, "There is no device 'meta'"),
        ({"memory": "much"}, "memory='much' is not a number of bytes"),
        ({"memory": 0}, "memory='0' is not a number of bytes"),
        ({"random_state": -1}, "random_state=-1 must be"),
        ({"random_state": "now"}, "random_state=now must be"),
        ({"random_state": 2**32}, "random_state=4294967296 must be"),
        ({"relations": "links"}, "There is no relation 'links'. Did you mean 'link'"),
        ({"relations": []}, "at least one relation"),
        ({"relations": ["link", "link"]}, "none twice"),
        ({"width": 0}, "width=0 must be at least 1"),
        ({"encoder": "gat", "width": 12}, "width=12 cannot be shared out among heads=8"),
        ({"positives": 0}, "positives=0 must be at least 1"),
        ({"epochs": 0}, "epochs=0 must be at least 1"),
        ({"negatives": 0}, "negatives=0 must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be above 0"),
        ({"temperature": -1.0}, "temperature=-1.0 must be above 0"),
        ({"similarity": "dot"}, "similarity='dot' must be"),
        ({"crossfit": 1}, "crossfit=1 must be 0"),
        ({"quantiles": [1.5]}, "quantile"),
        ({"cap": 0}, "cap=0 must be a whole number of at least 1"),
        ({"index_past": 10}, "index_past=10 is for top-k mode"),
        ({"cap": True}, "cap=True must be a whole number of at least 1"),
        ({"encoder_options": {3: 4}}, "Encoder 'gcn' has no option '3'"),
        ({"epochs": "a"}, "epochs='a' must be a whole number of at least 1."),
        ({"epochs": 1.5}, "epochs=1.5 must be a whole number of at least 1."),
        ({"negatives": "a"}, "negatives='a' must be a whole number of at least 1."),
        ({"negatives": True}, "negatives=True must be a whole number of at least 1."),
        ({"temperature": "a"}, "temperature='a' must be a number."),
        ({"learning_rate": "a"}, "learning_rate='a' must be a number."),
        ({"width": "a"}, "width='a' must be a whole number of at least 1."),
        ({"width": 2.5}, "width=2.5 must be a whole number of at least 1."),
        ({"encoder_options": 3}, "encoder_options=3 must be a dictionary, such as"),
        ({"quantiles": 0.9}, "quantiles=0.9 must be a list of numbers, such as (0.99,)."),
        ({"quantiles": "a"}, "quantiles='a' must be a list of numbers, such as (0.99,)."),
        ({"quantiles": ["a"]}, "quantiles=['a'] must be a list of numbers, such as (0.99,)."),
        ({"crossfit": "a"}, "crossfit='a' must be a whole number of at least 0."),
        ({"crossfit": 2.5}, "crossfit=2.5 must be a whole number of at least 0."),
        ({"progress": True}, "progress=True must be a Progress; for a display, give verbose=True"),
        ({"use_labels": "no"}, "use_labels='no' must be True or False."),
        ({"use_labels": None}, "use_labels=None must be True or False."),
        ({"verbose": "no"}, "verbose='no' must be True or False."),
        (
            {"verbose": 2},
            "verbose=2 must be True or False. None shows progress in notebooks alone.",
        ),
        ({"recipe": "paper"}, "recipe='paper' must be a FitConfig, such as"),
        ({"store": 3}, "store=3 must be a folder, a RelationStore, or None."),
        ({"relations": None}, "relations=None must be a name, a Relation, or a list of those."),
        ({"relations": 3}, "relations=3 must be a name, a Relation, or a list of those."),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_unusable_parameters_are_named(settings: dict[str, Any], sentence: str) -> None:
    graph = small_graph()
    with pytest.raises(UsageError) as refused:
        small_model(**settings).fit(graph, split_of(graph))
    assert sentence in str(refused.value)


def test_a_gpu_that_is_not_there_is_named() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(UsageError, match="There is no device 'cuda' here"):
        pick_device("cuda")
    assert pick_device("auto") == pick_device("cpu") == torch.device("cpu")


def test_a_budget_that_is_too_small_is_named() -> None:
    graph = small_graph()
    with pytest.raises(BudgetError, match=r"needs about .* GB and the budget is 1 MB"):
        small_model(memory="1MB").fit(graph)


def test_a_split_of_the_wrong_kind_is_named() -> None:
    graph = small_graph()
    with pytest.raises(UsageError, match=r"needs a split of nodes and got one of links"):
        small_model().fit(graph, link_split(graph))
    with pytest.raises(UsageError, match=r"needs a split of links.*use link_split\(graph\)"):
        small_model("links").fit(graph, split_of(graph))
    nodes, links = small_model().fit(graph), small_model("links").fit(graph)
    with pytest.raises(UsageError, match="A split of links cannot score this answer"):
        nodes.score(link_split(graph))
    with pytest.raises(UsageError, match="A split of nodes cannot score this answer"):
        links.score(split_of(graph))


def test_a_split_of_another_graph_is_named() -> None:
    graph, larger = small_graph(), small_graph(150)
    with pytest.raises(DataError, match="use the graph it was made from"):
        small_model().fit(graph, split_of(larger))
    with pytest.raises(DataError, match="use the graph it was made from"):
        small_model("links").fit(graph, link_split(larger))
    fitted = small_model().fit(graph)
    with pytest.raises(DataError, match="use the graph it was made from"):
        fitted.score(split_of(larger))
    with pytest.raises(DataError, match="use the graph it was made from"):
        fitted.score(split_of(larger), larger)


def test_what_is_no_graph_is_named() -> None:
    with pytest.raises(UsageError, match="list is no graph"):
        small_model().fit([[0, 1]])


def test_nodes_and_pairs_that_do_not_exist_are_named() -> None:
    graph = small_graph()
    nodes, links = small_model().fit(graph), small_model("links").fit(graph)
    for wrong, named in (([0, 80], "80"), ([-1], "-1")):
        with pytest.raises(UsageError, match=f"Nodes are 0 to 79; {named} is not among them"):
            nodes.predict(wrong)
    for rubbish in ([0.5], ["a"], [True, False]):
        with pytest.raises(UsageError, match="Nodes are whole numbers from 0 to 79"):
            nodes.predict(rubbish)
    with pytest.raises(UsageError, match=r"give an array \[2, n\]"):
        links.predict()
    with pytest.raises(DataError, match=r"shape \(2, n\)"):
        links.predict_proba([0, 1])
    with pytest.raises(DataError, match="name a node that the embedding does not have"):
        links.decision_function([[0], [80]])
    with pytest.raises(UsageError, match="decision_function is for task='links'"):
        nodes.decision_function([[0], [1]])


def test_a_failed_fit_leaves_the_fitted_model_as_it_was() -> None:
    graph = small_graph()
    split = split_of(graph)
    model = small_model().fit(graph, split)
    before, score = model.embedding_, model.score(split)
    with pytest.raises(UsageError):
        model.set_params(encoder="gat", width=12).fit(graph, split)
    assert model.embedding_ is before
    assert all(member.encoder["width"] == 8 for member in model.plan_.encoders)
    assert model.score(split) == score


def test_too_few_links_are_named() -> None:
    tiny = Graph.from_arrays(np.eye(5), [[0, 1], [1, 2]])
    with pytest.raises(DataError):
        small_model("links").fit(tiny)
    empty = LinkSplit([[], []], [[], []], [[], []], [[], []], 80, 0)  # type: ignore[arg-type]
    with pytest.raises(DataError):
        small_model("links").fit(small_graph(), empty)


def test_what_trained_cannot_be_scored() -> None:
    graph = small_graph()
    model = small_model().fit(graph, split_of(graph))
    with pytest.raises(UsageError, match="test nodes of this split are training nodes"):
        model.score(node_split(graph, train=0.3, seed=9))
    links = small_model("links").fit(graph, link_split(graph))
    with pytest.raises(UsageError, match="test links of this split are training links"):
        links.score(link_split(graph, seed=9))


def test_a_leaky_split_is_refused() -> None:
    graph = small_graph()
    split = split_of(graph)
    with pytest.raises(DataError, match="these nodes are both training and test nodes"):
        NodeSplit(train=split.train, test=np.append(split.test, split.train[0]), seed=0)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_encoder_options_are_one_encoder_and_nothing_beside_it(task: str) -> None:
    graph = small_graph()
    options = {"layers": 2, "hops": 1, "width": 6}
    model = small_model(task, width=None, encoder_options=options).fit(graph)
    (plan,) = model.recipe_.ensembles
    assert plan == model.plan_
    assert (len(plan.encoders), plan.attributes) == (1, 0.0)
    assert plan.encoders[0].encoder == options
    joined: Any = model.encoder_
    (encoder,) = joined.members
    assert len(encoder.linears) == 2
    with torch.no_grad():
        output = encoder(*encoder_inputs(model.training_data_.graph, torch.device("cpu")))
    np.testing.assert_array_equal(model.embedding_, output.numpy())
    assert model.embedding_.shape == (80, 6)


def test_empty_encoder_options_are_the_encoder_s_own_defaults() -> None:
    model = small_model(width=None, encoder_options={}, epochs=1).fit(small_graph())
    assert model.embedding_.shape == (80, 512)


def test_a_recipe_of_the_user_s_own_is_followed() -> None:
    graph = small_graph()
    members = (
        EncoderConfig({"width": 3}, TrainingConfig(epochs=4)),
        EncoderConfig({"width": 5}, weight=0.5),
    )
    recipe = FitConfig(positives=6, ensembles=(EnsembleConfig(members, 0.7),))
    model = XTCL(recipe=recipe, device="cpu").fit(graph)
    assert model.recipe_ == recipe
    assert model.plan_ == recipe.ensembles[0]
    assert model.positives_.shape == (80, 6)
    assert [len(curve) for curve in model.loss_curves_] == [4, TrainingConfig().epochs]
    assert model.embedding_.shape == (80, 3 + 5 + 3 * 16)


def test_a_recipe_that_cannot_be_used_is_named() -> None:
    with pytest.raises(UsageError, match="num_positives_per_step=0 must be at least 1"):
        XTCL(recipe=FitConfig(num_positives_per_step=0)).fit(small_graph())
