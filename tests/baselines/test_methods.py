"""What every method must do, whatever it is: answer well, repeat, and see training data only."""

from __future__ import annotations

import functools
import pickle
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import small_graph

from xtcl import XTCL
from xtcl.baselines import METHODS, make_method
from xtcl.baselines.gat import GAT
from xtcl.baselines.gcn import GCN
from xtcl.baselines.logistic import Logistic
from xtcl.baselines.method import Method, XTCLMethod
from xtcl.baselines.propagation import PropagationMethod
from xtcl.baselines.trees import Trees, TreesNeighbours
from xtcl.config import SamplerConfig
from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, link_split, node_split
from xtcl.lab.experiments.comparison import LinkTable, NodeTable
from xtcl.lab.methods.naive_xgboost import NaiveXGBoost
from xtcl.model_selection.evaluation import score_method
from xtcl.progress import Progress
from xtcl.tasks import TASKS, make_task
from xtcl.tasks.fit import fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.training_data import TrainingData, training_data

CPU = torch.device("cpu")


CONTROLS = {
    "gcn": GCN(epochs=40),
    "gat": GAT(epochs=40),
    "logistic": Logistic(),
    "propagation": PropagationMethod(),
    "trees": Trees(),
    "trees-neighbours": TreesNeighbours(),
}


each_control = pytest.mark.parametrize("method", CONTROLS.values(), ids=CONTROLS)


OF_LINKS = {name: method for name, method in CONTROLS.items() if "links" in method.tasks}


each_control_of_links = pytest.mark.parametrize("method", OF_LINKS.values(), ids=OF_LINKS)


ATTRIBUTES_ALONE = ("logistic", "trees")


def planted(**changes: float) -> Graph:
    return block_model(200, num_classes=3, num_attributes=30, mean_degree=10, **changes)  # type: ignore[arg-type]


GRAPH = planted(homophily=0.95, attribute_signal=1.5)


NODES = node_split(GRAPH, 0.2, seed=3)


LINKS = link_split(GRAPH, 0.8, seed=3)


def nodes_of(method: Method, side: TrainingData, seed: int = 0) -> np.ndarray:
    answer = method.fit(side, "nodes", seed=seed, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    return answer.probabilities


def links_of(method: Method, side: TrainingData, seed: int = 0) -> np.ndarray:
    answer = method.fit(side, "links", seed=seed, device=CPU, progress=Progress())
    assert isinstance(answer, LinkScores)
    return answer.score(np.hstack([LINKS.test, LINKS.test_negatives]))


@pytest.mark.slow
@each_control
def test_classes_of_a_planted_graph_are_found(method: Method) -> None:
    found = nodes_of(method, training_data(GRAPH, NODES))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert score_test_side(NodePredictions(found), GRAPH, NODES)["accuracy"] > 0.8  # chance: 0.33


@pytest.mark.slow
@each_control_of_links
def test_links_of_a_planted_graph_outscore_non_links(method: Method) -> None:
    side = training_data(GRAPH, LINKS)
    answer = method.fit(side, "links", seed=0, device=CPU, progress=Progress())
    # Links inside a class cannot be told from its non-links: nobody gets far above 0.8 here.
    assert score_test_side(answer, GRAPH, LINKS)["auc"] > 0.7


def global_states() -> list[bytes]:
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002
    states = torch.random.get_rng_state().tolist(), numpy_state, random.getstate()
    return [pickle.dumps(state) for state in states]


@pytest.mark.slow
@each_control
def test_same_seed_gives_same_bytes_and_leaves_the_global_state(method: Method) -> None:
    def answers() -> list[bytes]:
        found = [nodes_of(method, training_data(GRAPH, NODES), 5)]
        if "links" in method.tasks:
            found.append(links_of(method, training_data(GRAPH, LINKS), 5))
        return [answer.tobytes() for answer in found]

    answers()  # a library may draw a number while it is imported
    before = global_states()
    first = answers()
    assert global_states() == before
    with torch.random.fork_rng():
        torch.manual_seed(99)
        assert answers() == first


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcn", "gat", "trees", "trees-neighbours"])
def test_another_seed_gives_another_fit(name: str) -> None:
    side = training_data(GRAPH, NODES)
    assert not np.allclose(nodes_of(CONTROLS[name], side, 1), nodes_of(CONTROLS[name], side, 2))


@pytest.mark.slow
@each_control
def test_test_labels_change_nothing(method: Method) -> None:
    assert GRAPH.labels is not None
    wrong = np.array(GRAPH.labels)
    wrong[NODES.test] = np.random.default_rng(0).permutation(wrong[NODES.test])
    other = GRAPH.with_labels(wrong)
    expected = nodes_of(method, training_data(GRAPH, NODES))
    np.testing.assert_array_equal(nodes_of(method, training_data(other, NODES)), expected)


@pytest.mark.slow
@each_control_of_links
def test_test_links_change_nothing(method: Method) -> None:
    other = GRAPH.with_edges(LINKS.train)
    expected = links_of(method, training_data(GRAPH, LINKS))
    np.testing.assert_array_equal(links_of(method, training_data(other, LINKS)), expected)


@pytest.mark.slow
@each_control
def test_a_graph_without_attributes_is_answered(method: Method) -> None:
    bare = Graph.from_arrays(None, GRAPH.edges, GRAPH.labels, num_nodes=GRAPH.num_nodes)
    found = nodes_of(method, training_data(bare, NODES))
    assert found.shape == (200, 3)
    accuracy = score_test_side(NodePredictions(found), bare, NODES)["accuracy"]
    assert accuracy > 0.6 or method.name in ATTRIBUTES_ALONE
    if "links" in method.tasks:
        assert np.isfinite(links_of(method, training_data(bare, LINKS))).all()


@pytest.mark.slow
@each_control
def test_nothing_to_learn_from_is_said(method: Method) -> None:
    unknown = TrainingData(GRAPH.with_labels(np.full(200, -1)))
    with pytest.raises(DataError):
        nodes_of(method, unknown)
    if "links" not in method.tasks:
        return
    unlinked = TrainingData(GRAPH.with_edges(np.zeros((2, 0), np.int64)), LINKS.train_negatives)
    with pytest.raises(DataError):
        links_of(method, unlinked)


@pytest.mark.slow
@each_control_of_links
def test_the_side_of_a_node_split_cannot_train_links(method: Method) -> None:
    with pytest.raises(UsageError, match="needs a link split"):
        links_of(method, training_data(GRAPH, NODES))


NAMES = (
    "xtcl-gcn xtcl-gat xtcl-paper xtcl-paper-gat sscl sscl-all scl ceiling-scl naive-tcl dgi sugrl "
    "asp polygcl gcn gat dgcn meta-pn cocos subgraph logistic propagation "
    "trees trees-neighbours"
)


def test_every_method_goes_by_its_own_name() -> None:
    assert list(METHODS) == NAMES.split()
    assert len({kind.title for kind in METHODS.values()}) == len(METHODS)
    for name in METHODS:
        method = make_method(name.upper())
        assert method.name == name
        assert method.tasks <= set(TASKS)


def test_an_unknown_method_meets_the_closest() -> None:
    with pytest.raises(UsageError, match=r"no method 'propagate'\. Did you mean 'propagation'"):
        make_method("propagate")
    with pytest.raises(UsageError, match=r"no method 'zzz'\. Known: xtcl-gcn"):
        make_method("zzz")


def test_what_is_only_timed_says_so() -> None:
    with pytest.raises(UsageError, match=r"^Naive XGBoost has no task .* `xtcl reproduce time`"):
        make_method("Naive-XGBoost")


COMPARED = [kind for kind in METHODS.values() if not issubclass(kind, XTCLMethod)]


@pytest.mark.parametrize("kind", [*COMPARED, NaiveXGBoost])
def test_every_system_has_its_formula_citation_and_cost_on_its_page(kind: type) -> None:
    text = kind.__doc__ or ""
    assert "math:" in text
    assert re.search(r"\b(19|20)\d\d\b", text)
    assert "Cost" in text
    page = (Path(__file__).parents[2] / "docs" / "systems.md").read_text(encoding="utf-8")
    assert f"::: {kind.__module__}.{kind.__name__}\n" in page


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
def test_xtcl_is_the_pipeline_of_the_package(encoder: str) -> None:
    graph = block_model(40, num_classes=2, num_attributes=10, mean_degree=6)
    side = training_data(graph, node_split(graph, 0.3))
    device = torch.device("cpu")
    answer = make_method(f"xtcl-{encoder}").fit(
        side, "nodes", seed=7, device=device, progress=Progress()
    )
    options = FitOptions(encoder=encoder, seed=7)
    expected = fit_task(side, make_task("nodes"), options=options).answer
    assert isinstance(answer, NodePredictions)
    assert isinstance(expected, NodePredictions)
    np.testing.assert_array_equal(answer.probabilities, expected.probabilities)


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("encoder", ["gcn", "gat"])
def test_the_paper_as_printed_is_what_sampler_paper_fits(task: str, encoder: str) -> None:
    method = make_method("xtcl-paper" if encoder == "gcn" else "xtcl-paper-gat")
    assert isinstance(method, XTCLMethod)
    assert method.recipe_for(task) == XTCL(task, encoder, sampler="paper").resolved_recipe()
    assert method.recipe_for(task).sampler == SamplerConfig.paper()
    graph = block_model(40, num_classes=2, num_attributes=10, mean_degree=6)
    split = node_split(graph, 0.3) if task == "nodes" else link_split(graph, 0.6)
    answers = [
        each.fit(training_data(graph, split), task, seed=3, device=CPU, progress=Progress())
        for each in (method, our_method(encoder)(method.recipe_for(task)))
    ]
    scores = [score_test_side(answer, graph, split) for answer in answers]
    assert scores[0] == scores[1]


def our_method(encoder: str) -> type[XTCLMethod]:
    found = METHODS[f"xtcl-{encoder}"]
    assert issubclass(found, XTCLMethod)
    return found


# What all methods refuse in the same words.

SIDE = TrainingData(small_graph())


@pytest.mark.parametrize(
    ("name", "task"),
    [
        (name, task)
        for name, kind in METHODS.items()
        for task in sorted({*TASKS, "custom"} - kind.tasks)
    ],
)
def test_a_task_without_an_answer_is_refused(name: str, task: str) -> None:
    method = make_method(name)
    known = ", ".join(sorted(method.tasks))
    with pytest.raises(UsageError) as refused:
        method.fit(SIDE, task, seed=0, device=torch.device("cpu"), progress=Progress())
    assert str(refused.value) == f"{method.title} has no task '{task}'. It knows: {known}."


# On a planted graph whose links say more than its attributes, those that read links show it.

CONTROL = "logistic"


GRAPH_AGAINST_CONTROL = block_model(
    200, num_classes=3, num_attributes=20, mean_degree=12, homophily=0.95, attribute_signal=0.6
)


SPLITS: dict[str, NodeSplit | LinkSplit] = {
    "nodes": node_split(GRAPH_AGAINST_CONTROL, 0.15, seed=1),
    "links": link_split(GRAPH_AGAINST_CONTROL, 0.8, seed=1),
}


MARGINS = {"nodes": 0.1, "links": 0.05}


@functools.cache
def figure(task: str, method: str) -> float:
    found, _ = score_method(
        GRAPH_AGAINST_CONTROL,
        SPLITS[task],
        make_method(method),
        seed=0,
        device=torch.device("cpu"),
        progress=Progress(),
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "method"),
    [
        (table.task, method)
        for table in (NodeTable(), LinkTable())
        for method in table.systems()
        if method not in ATTRIBUTES_ALONE
    ],
)
def test_beats_attributes_alone(task: str, method: str) -> None:
    assert figure(task, method) > figure(task, CONTROL) + MARGINS[task]
