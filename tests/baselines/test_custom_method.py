"""Methods of one's own: what may be registered, what they get, and what they may return."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from small_runs import small_graph
from typer.testing import CliRunner

from xtcl import baselines
from xtcl.baselines import METHODS, Method, forget_method, make_method, register_method
from xtcl.baselines.custom_method import as_method
from xtcl.cli.main import app
from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig, TrainingConfig
from xtcl.errors import DataError, UsageError
from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split, node_split
from xtcl.progress import Progress
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data

GRAPH = small_graph()
SPLIT = node_split(GRAPH, 0.3, seed=0)
SIDE = training_data(GRAPH, SPLIT)
LINKS = training_data(GRAPH, link_split(GRAPH, seed=0))
OPTIONS: dict[str, Any] = {"seed": 3, "device": torch.device("cpu"), "progress": Progress()}


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    for name in ("mine", "other"):
        forget_method(name)


def majority(data: TrainingData) -> np.ndarray:
    """The largest class of the training nodes, for all."""
    return np.full(data.graph.num_nodes, np.bincount(data.known_labels).argmax())


class Majority(Method):
    """No more than the abstract method."""

    def fit(self, side: TrainingData, task: str, **options: Any) -> Any:
        assert set(options) == set(OPTIONS)
        return majority(side)


class Plain:
    """No Method at all, but it has a fit."""

    def fit(self, data: TrainingData) -> np.ndarray:
        return majority(data)


@pytest.mark.parametrize("given", [majority, Majority, Majority(), Plain, Plain()])
def test_a_function_a_class_or_an_object(given: Any) -> None:
    register_method("Mine", given)
    expected = np.eye(3)[majority(SIDE)]
    for method in (make_method("mine"), METHODS["mine"](), as_method(given)):
        answer = method.fit(SIDE, "nodes", **OPTIONS)
        assert isinstance(answer, NodePredictions)
        np.testing.assert_array_equal(answer.probabilities, expected)
    assert make_method("MINE").name == "mine"
    assert "mine" in METHODS
    assert list(METHODS)[-1] == "mine"
    assert len(METHODS) == len(list(METHODS))


def test_registering_again_replaces() -> None:
    register_method("mine", lambda data: np.zeros(data.graph.num_nodes, dtype=int))
    register_method("mine", lambda data: np.ones(data.graph.num_nodes, dtype=int))
    answer = make_method("mine").fit(SIDE, "nodes", **OPTIONS)
    assert isinstance(answer, NodePredictions)
    assert (answer.predictions == 1).all()
    forget_method("mine")
    assert "mine" not in METHODS


@pytest.mark.parametrize("name", ["gcn", "XTCL-GCN", "naive-xgboost"])
def test_built_in_names_are_kept(name: str) -> None:
    with pytest.raises(UsageError, match=rf"'{name}' is the name of a built-in method"):
        register_method(name, majority)
    with pytest.raises(UsageError, match=r"cannot be called 'a,b': give a name without commas"):
        register_method("a,b", majority)


def test_a_function_gets_what_it_names() -> None:
    seen: list[Any] = []

    def some(data: TrainingData, task: str, *, seed: int) -> np.ndarray:
        seen.append((data, task, seed))
        return majority(data)

    def everything(data: TrainingData, **options: Any) -> np.ndarray:
        seen.append(options)
        return majority(data)

    for given in (some, everything):
        as_method(given).fit(SIDE, "nodes", **OPTIONS)
    assert seen == [(SIDE, "nodes", 3), {"task": "nodes", **OPTIONS}]
    with pytest.raises(
        UsageError, match=r"'mine' needs 'graph', which is not provided: .* task, seed"
    ):
        register_method("mine", lambda data, graph: None)
    with pytest.raises(UsageError, match="takes no argument"):
        register_method("mine", lambda: None)
    with pytest.raises(UsageError, match="A method cannot be of type int: give a function"):
        register_method("mine", 3)


def test_tasks_are_those_that_were_named() -> None:
    register_method("mine", majority, tasks=["nodes"])
    with pytest.raises(UsageError, match=r"mine has no task 'links'\. It knows: nodes\."):
        make_method("mine").fit(LINKS, "links", **OPTIONS)
    with pytest.raises(UsageError, match="no task 'graphs'"):
        register_method("mine", majority, tasks=["graphs"])
    register_method("mine", majority)
    assert METHODS["mine"].tasks == {"nodes", "links"}


def test_a_scorer_of_pairs() -> None:
    register_method("mine", lambda data: lambda pairs: torch.tensor(pairs.sum(axis=0)))
    answer = make_method("mine").fit(LINKS, "links", **OPTIONS)
    assert isinstance(answer, LinkScores)
    np.testing.assert_array_equal(answer.score(np.array([[0, 2], [1, 3]])), [1.0, 5.0])


def returning(value: Any) -> Method:
    return as_method(lambda data: value)


NODES, CLASSES = GRAPH.num_nodes, GRAPH.num_classes


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (
            np.zeros((NODES, 2)),
            rf"shape \({NODES}, 2\) .*\[{NODES}, 3\] or class codes \[{NODES}\]",
        ),
        (np.zeros(5, dtype=int), r"returned an array of shape \(5,\)"),
        (None, r"returned an array of shape \(\) and type object"),
        (np.full(NODES, 3), "class codes that are not whole numbers from 0 to 2"),
        (np.zeros(NODES), "class codes that are not whole numbers"),
        (np.full((NODES, CLASSES), 5.0), "must not be negative and sum to 1. Take the softmax"),
        (np.full((NODES, CLASSES), np.nan), "rows that are no probabilities"),
    ],
)
def test_wrong_predictions_for_nodes_are_sentences(value: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        returning(value).fit(SIDE, "nodes", **OPTIONS)


def test_wrong_predictions_for_links_are_sentences() -> None:
    with pytest.raises(UsageError, match=r"returned a ndarray for links: return a function of pai"):
        returning(np.zeros((NODES, 4))).fit(LINKS, "links", **OPTIONS)
    answer = returning(lambda pairs: pairs).fit(LINKS, "links", **OPTIONS)
    assert isinstance(answer, LinkScores)
    with pytest.raises(
        UsageError, match=r"have shape \(2, 4\): return one number for each of the 4"
    ):
        answer.score(np.zeros((2, 4), dtype=int))


def test_probabilities_may_be_a_tensor() -> None:
    table = torch.softmax(torch.randn(NODES, CLASSES, requires_grad=True), dim=1)
    answer = returning(table).fit(SIDE, "nodes", **OPTIONS)
    assert isinstance(answer, NodePredictions)
    np.testing.assert_allclose(answer.probabilities, table.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC])
def test_a_classifier_of_scikit_learn_learns_from_the_attributes(make: Callable[[], Any]) -> None:
    answer = as_method(make()).fit(SIDE, "nodes", **OPTIONS)
    assert isinstance(answer, NodePredictions)
    x = GRAPH.attributes
    alone = make().fit(x[SPLIT.train], SIDE.labels[SPLIT.train])
    np.testing.assert_array_equal(answer.predictions, alone.predict(x))
    with pytest.raises(UsageError, match="has no task 'links'"):
        as_method(make()).fit(LINKS, "links", **OPTIONS)
    bare = TrainingData(Graph.from_arrays(None, GRAPH.edges, SIDE.labels))
    with pytest.raises(DataError, match="has no attributes"):
        as_method(make()).fit(bare, "nodes", **OPTIONS)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_an_estimator_fits_as_it_does_alone(task: str) -> None:
    training = TrainingConfig(epochs=3)
    one = EncoderConfig({"width": 8}, training)
    model = XTCL(task, recipe=FitConfig(ensembles=(EnsembleConfig((one,)),)), relations=["link"])
    split = link_split(GRAPH, seed=0) if task == "links" else SPLIT
    side = training_data(GRAPH, split)
    answer = as_method(model).fit(side, task, **OPTIONS)
    alone = XTCL(**(model.get_params(deep=False) | {"random_state": 3, "device": "cpu"}))
    alone.fit(GRAPH, split)
    if task == "nodes":
        assert isinstance(answer, NodePredictions)
        np.testing.assert_array_equal(answer.probabilities, alone.predict_proba())
    else:
        assert isinstance(answer, LinkScores)
        assert isinstance(split.test, np.ndarray)
        np.testing.assert_array_equal(answer.score(split.test), alone.decision_function(split.test))
    assert not hasattr(model, "fitted_task_")  # a copy was fitted


def test_registered_methods_are_listed() -> None:
    register_method("mine", majority, tasks=["nodes"])
    output = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)
    (mine,) = (each for each in output if each["name"] == "mine")
    assert mine == {
        "name": "mine",
        "title": "mine",
        "tasks": ["nodes"],
        "command": "xtcl evaluate --method mine",
    }
    listed = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "120"}).stdout
    assert "The largest class of the training nodes, for all." in listed


def test_names_are_offered_where_people_look() -> None:
    assert baselines.Method is Method
    with pytest.raises(
        AttributeError, match=r"module 'xtcl\.baselines' has no attribute 'rubbish'"
    ):
        _ = baselines.rubbish


def test_names_and_tasks_of_the_wrong_kind_are_named() -> None:
    given: Any = 3
    with pytest.raises(UsageError, match="A method cannot be called 3: give a name"):
        register_method(given, majority)
    with pytest.raises(UsageError, match="There is no method 3: give one of the names"):
        make_method(given)
    with pytest.raises(UsageError, match="tasks=3 must be names of tasks: nodes, links"):
        register_method("mine", majority, tasks=given)
    register_method("mine", majority, tasks="nodes")
    assert METHODS["mine"].tasks == {"nodes"}
