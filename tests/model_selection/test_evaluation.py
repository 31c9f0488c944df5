"""One method on several splits: the figures, their mean and its standard error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy import stats
from small_runs import Recorder, small_graph, small_model

from xtcl import model_selection
from xtcl.baselines import forget_method, make_method, register_method
from xtcl.baselines.method import Method
from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, check_no_leak
from xtcl.model_selection.evaluation import (
    Evaluation,
    compare,
    evaluate,
    make_split,
    score_method,
    standard_error,
)
from xtcl.model_selection.tuning import tune
from xtcl.progress import Progress
from xtcl.tasks.metrics import METRICS, score_test_side
from xtcl.tasks.results import LinkScores, NodePredictions, Predictions
from xtcl.tasks.training_data import TrainingData, training_data

GRAPH = small_graph()


KEYS = ["dataset", "task", "method", "metric", "mean", "stderr", "runs", "seeds", "seconds"]
TWO = block_model(60, num_classes=2, num_attributes=8, seed=0)


class Cheat(Method):
    """Knows a number of right answers for each seed."""

    name: ClassVar[str] = "cheat"
    title: ClassVar[str] = "Cheat"
    tasks: ClassVar[frozenset[str]] = frozenset({"nodes", "links"})

    def __init__(self, right: Mapping[int, int]) -> None:
        self.right = right
        self.sides: list[TrainingData] = []

    def fit(
        self, side: TrainingData, task: str, *, seed: int, device: torch.device, progress: Progress
    ) -> Predictions:
        """Class 0 but for the first nodes."""
        self.sides.append(side)
        if task == "links":
            return LinkScores(lambda pairs: pairs.sum(axis=0).astype(float))
        assert GRAPH.labels is not None
        codes = (GRAPH.labels + 1) % 3
        split = make_split(GRAPH, "nodes", seed)
        chosen = split.test[: self.right[seed]]
        codes[chosen] = GRAPH.labels[chosen]
        return NodePredictions(np.eye(3)[codes])


def test_figures_mean_and_standard_error() -> None:
    right = {4: 36, 5: 54, 6: 18, 7: 72}
    result = evaluate(GRAPH, "nodes", Cheat(right), splits=4, seed=4)
    figures = [100 * count / 72 for count in right.values()]  # 90 % of 80 nodes are tested
    mean = sum(figures) / 4
    variance = sum((figure - mean) ** 2 for figure in figures) / 3
    assert result.seeds == [4, 5, 6, 7]
    assert result.runs == pytest.approx(figures, abs=1e-4)
    assert result.mean == pytest.approx(mean, abs=1e-4)
    assert result.stderr == pytest.approx(math.sqrt(variance / 4), abs=1e-4)
    assert len(result.seconds) == 4
    assert (result.dataset, result.task) == (GRAPH.name, "nodes")
    assert (result.method, result.metric) == ("cheat", "accuracy")
    assert list(result.to_json()) == [*KEYS, "metrics"]
    assert list(Evaluation.of("g", "nodes", "m", {0: (1.0, 2.0)}).to_json()) == KEYS


def test_a_single_split_has_no_spread() -> None:
    result = evaluate(GRAPH, "links", Cheat({}), splits=1, seed=3)
    assert (result.stderr, result.seeds, result.metric) == (None, [3], "auc")
    assert result.mean == result.runs[0]


def test_a_method_gets_the_training_side_only() -> None:
    nodes, links = Cheat({0: 1, 1: 1}), Cheat({})
    evaluate(GRAPH, "nodes", nodes, splits=2)
    evaluate(GRAPH, "links", links, splits=2)
    for seed, side in enumerate(nodes.sides):
        split = make_split(GRAPH, "nodes", seed)
        np.testing.assert_array_equal(side.labelled, split.train)
    for seed, side in enumerate(links.sides):
        np.testing.assert_array_equal(side.graph.edges, make_split(GRAPH, "links", seed).train)
        assert side.graph.labels is None


def test_splits_are_the_paper_s() -> None:
    nodes, links = make_split(GRAPH, "nodes", 3), make_split(GRAPH, "links", 3)
    assert isinstance(nodes, NodeSplit)
    assert (len(nodes.train), len(nodes.test)) == (8, 72)
    assert isinstance(links, LinkSplit)
    assert links.train.shape[1] == round(0.6 * GRAPH.num_edges)
    for split in (nodes, links):
        check_no_leak(GRAPH, split)
        assert split.seed == 3


@pytest.mark.slow
@pytest.mark.parametrize(("task", "method"), [("nodes", "xtcl-gcn"), ("links", "logistic")])
def test_the_same_seeds_give_the_same_figures(task: str, method: str) -> None:
    first, second = (evaluate(GRAPH, task, make_method(method), splits=2, seed=1) for _ in "ab")
    assert first.runs == second.runs
    # and a figure does not hang on the splits before it
    alone = evaluate(GRAPH, task, make_method(method), splits=1, seed=2)
    assert alone.runs == first.runs[1:]


def test_our_method_is_the_estimator() -> None:
    from xtcl.estimator import XTCL

    split = make_split(GRAPH, "nodes", 1)
    cpu = torch.device("cpu")
    figure, seconds = score_method(
        GRAPH, split, make_method("xtcl-gcn"), seed=1, device=cpu, progress=Progress()
    )
    model = XTCL("nodes", "gcn", device="cpu", random_state=1).fit(GRAPH, split)
    assert figure == model.score(split)
    assert seconds > 0


def test_misuse_is_named() -> None:
    with pytest.raises(UsageError, match="splits=0 must be at least 1"):
        evaluate(GRAPH, "nodes", Cheat({}), splits=0)
    with pytest.raises(UsageError, match="seed must be a whole number from 0 on"):
        evaluate(GRAPH, "nodes", Cheat({}), seed=-1)
    bare = Graph.from_arrays(GRAPH.attributes, GRAPH.edges)
    with pytest.raises(DataError, match="has no labels"):
        evaluate(bare, "nodes", Cheat({}))


# A method first, with a number of splits or with splits of one's own.


def zeros(data: TrainingData) -> np.ndarray:
    """Class 0 for all."""
    return np.zeros(data.graph.num_nodes, dtype=int)


def test_both_orders_of_the_arguments_are_one_call() -> None:
    def figures(result: Evaluation) -> dict[str, object]:
        return {name: value for name, value in result.to_json().items() if name != "seconds"}

    first = figures(evaluate(zeros, GRAPH, 3, seed=4))
    assert first == figures(evaluate(GRAPH, "nodes", zeros, splits=3, seed=4))
    converted = figures(evaluate(method=zeros, graph=GRAPH.to_pyg(), splits=3, seed=4))
    assert first == converted | {"dataset": GRAPH.name}
    assert first["method"] == "zeros"
    with pytest.raises(TypeError, match="multiple values for keyword argument 'splits'"):
        evaluate(zeros, GRAPH, 3, splits=3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="takes 3 positional arguments: method, graph, splits"):
        evaluate(zeros, GRAPH, 3, 4)  # type: ignore[call-overload]


def test_splits_of_one_s_own() -> None:
    assert GRAPH.labels is not None
    splits = [make_split(GRAPH, "nodes", seed, train) for seed, train in ((3, 0.2), (3, 0.5))]
    result = evaluate(zeros, GRAPH, splits)
    shares = [100 * float((GRAPH.labels[split.test] == 0).mean()) for split in splits]
    assert result.runs == pytest.approx(shares, abs=1e-4)
    assert result.seeds == [0, 1]
    assert evaluate(zeros, GRAPH, splits[1]).runs == result.runs[1:]
    links = evaluate(lambda data: lambda pairs: pairs[0], GRAPH, [make_split(GRAPH, "links", 0)])
    assert (links.task, links.metric) == ("links", "auc")


def test_splits_that_cannot_be_used_are_named() -> None:
    nodes, links = make_split(GRAPH, "nodes", 0), make_split(GRAPH, "links", 0)
    for splits in ([], [nodes, links], ["nodes"], 2.5):
        with pytest.raises(UsageError, match="splits must be a number, or splits of one kind"):
            evaluate(zeros, GRAPH, splits)  # type: ignore[arg-type]
    mask = np.arange(GRAPH.num_nodes) < 40
    remedy = r"A mask does not say which nodes test: give NodeSplit\.from_masks"
    for masks in (mask, [mask], torch.from_numpy(mask)):
        with pytest.raises(UsageError, match=remedy):
            evaluate(zeros, GRAPH, masks)  # type: ignore[arg-type]
    assert evaluate(zeros, GRAPH, NodeSplit.from_masks(mask, ~mask, graph=GRAPH)).task == "nodes"
    with pytest.raises(
        UsageError, match="task='links' does not fit the splits, which are of nodes"
    ):
        evaluate(zeros, GRAPH, nodes, task="links")
    leak = replace(links, test=links.train)
    with pytest.raises(DataError, match="both"):
        evaluate(zeros, GRAPH, leak)


@pytest.mark.filterwarnings("error")
def test_the_masks_of_a_data_are_a_split() -> None:
    data = GRAPH.to_pyg()
    data.train_mask = torch.arange(GRAPH.num_nodes) < 40
    data.test_mask = torch.arange(GRAPH.num_nodes) >= 60
    expected = evaluate(zeros, GRAPH, NodeSplit.from_pyg(data)).runs
    for splits in (data, [data], NodeSplit.from_pyg(data), [NodeSplit.from_pyg(data)]):
        assert evaluate(zeros, data, splits).runs == expected
    assert len(evaluate(zeros, data, [data, NodeSplit.from_pyg(data)]).runs) == 2
    told = r"train_mask of the data is not read: .* splits=\[NodeSplit\.from_pyg\(data\)\], or"
    with pytest.warns(UserWarning, match=told) as warned:
        assert len(evaluate(zeros, data, 2).runs) == 2
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert evaluate(zeros, GRAPH.to_pyg(), 2).runs
    with pytest.raises(DataError, match="have no train_mask"):
        evaluate(zeros, data, [GRAPH.to_pyg()])


def test_a_name_or_an_estimator() -> None:
    named = evaluate("logistic", GRAPH, 2)
    assert named.runs == evaluate(GRAPH, "nodes", make_method("logistic"), splits=2).runs
    model = small_model("links", epochs=2)
    split = make_split(GRAPH, "links", 0)
    fitted = small_model("links", epochs=2).fit(GRAPH, split)
    result = evaluate(model, GRAPH, 1)
    assert result.runs == [round(100 * fitted.score(split), 4)]
    assert result.task == "links"


def test_the_package_has_the_functions() -> None:
    # Not as attributes: whoever imported a module of an old name has that in their place.
    for found in (compare, evaluate, make_split, tune):
        assert model_selection.__getattr__(found.__name__) is found
    assert list(signature(evaluate).parameters)[:3] == ["method", "graph", "splits"]


# The standard error against the library's.


def test_is_that_of_scipy() -> None:
    values = [84.0, 85.5, 83.1, 86.2]
    assert standard_error(values) == pytest.approx(stats.sem(values))
    assert standard_error(np.array(values)) == pytest.approx(stats.sem(values))


def test_of_one_value_nothing_is_known() -> None:
    assert standard_error([84.0]) is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seed": "a"}, "seed must be a whole number from 0 on, not 'a'"),
        ({"seed": 1.5}, r"seed must be a whole number from 0 on, not 1\.5"),
        ({"progress": True}, "progress=True must be a Progress"),
        ({"task": "foo"}, r"There is no task 'foo'\. Known: nodes, links"),
        ({"train": "a"}, "train=a is not a share"),
    ],
)
def test_options_of_the_wrong_kind_are_named(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        evaluate("logistic", GRAPH, 2, **options)


def test_a_split_for_an_unknown_task_is_refused() -> None:
    with pytest.raises(UsageError, match=r"There is no task 'node'\. Did you mean 'nodes'"):
        make_split(GRAPH, "node", 0)


# All metrics of a run, and several methods on the same splits.


def guess(data: TrainingData, seed: int) -> np.ndarray:
    """Probabilities that say little."""
    chances = np.random.default_rng(seed).random((data.graph.num_nodes, data.graph.num_classes))
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def test_every_metric_has_its_mean_and_error() -> None:
    result = evaluate(guess, TWO, 3, seed=2)
    assert tuple(result.metrics) == METRICS["nodes"]
    own = result.metrics["accuracy"]
    assert (own.mean, own.stderr, own.runs) == (result.mean, result.stderr, result.runs)
    assert TWO.labels is not None
    for name, spread in result.metrics.items():
        figures = []
        for seed in result.seeds:
            split = make_split(TWO, "nodes", seed)
            answer = NodePredictions(guess(training_data(TWO, split), seed))
            score = score_test_side(answer, TWO, split)[name]
            figures.append(round(score if name == "log_loss" else 100 * score, 4))
        assert spread.runs == figures
        assert spread.mean == pytest.approx(np.mean(figures), abs=1e-4)
        assert spread.stderr == pytest.approx(stats.sem(figures), abs=1e-4)
        chosen = evaluate(guess, TWO, 3, seed=2, metric=name)
        assert (chosen.metric, chosen.runs) == (name, figures)
        assert chosen.metrics == result.metrics
    assert tuple(evaluate("logistic", TWO, 1, task="links").metrics) == METRICS["links"]


def test_a_metric_that_a_split_does_not_define() -> None:
    assert TWO.labels is not None
    firsts = np.flatnonzero(TWO.labels == 0)
    known = np.concatenate([firsts[:3], np.flatnonzero(TWO.labels == 1)])
    splits = [make_split(TWO, "nodes", 0), NodeSplit(np.sort(known), firsts[3:])]
    assert "roc_auc" in evaluate(guess, TWO, splits[0]).metrics
    assert "roc_auc" not in evaluate(guess, TWO, splits).metrics
    with pytest.raises(DataError, match="'roc_auc' is not defined on split 1: the test nodes are"):
        evaluate(guess, TWO, splits, metric="roc_auc")
    with pytest.raises(UsageError, match=r"'roc_auc' is for two classes, and graph '.*' has 3"):
        evaluate(guess, GRAPH, splits=2, metric="roc_auc")


def test_methods_are_compared_on_the_same_splits() -> None:
    listener = Recorder()
    result = compare(["logistic", guess, zeros], TWO, 3, seed=1, progress=listener)
    alone = [evaluate(method, TWO, 3, seed=1) for method in ("logistic", guess, zeros)]
    assert [each.runs for each in result.methods] == [each.runs for each in alone]
    assert [each.method for each in result.methods] == ["logistic", "guess", "zeros"]
    assert [(each.method, each.to) for each in result.differences] == [
        ("guess", "logistic"),
        ("zeros", "logistic"),
    ]
    for each, own in zip(result.differences, alone[1:], strict=True):
        paired = [a - b for a, b in zip(own.runs, alone[0].runs, strict=True)]
        assert each.runs == pytest.approx(paired, abs=1e-9)
        assert each.mean == pytest.approx(sum(paired) / 3, abs=1e-4)
        assert each.stderr == pytest.approx(stats.sem(paired), abs=1e-4)
    assert {name.partition(": ")[0] for name, *_ in listener.stages} == {"logistic"}
    output = result.to_json()
    assert list(output) == ["dataset", "task", "metric", "methods", "differences"]
    assert (output["task"], output["metric"]) == ("nodes", "accuracy")
    assert list(output["methods"][0]) == [*KEYS, "metrics"]  # type: ignore[index]
    single = compare([zeros], TWO, 1, metric="log_loss")
    assert (single.metric, single.differences) == ("log_loss", [])


def test_a_comparison_that_cannot_be_made_starts_no_fit() -> None:
    cheat = Cheat({})
    only_links = Cheat({})
    only_links.__dict__.update(name="only-links", title="Only links", tasks=frozenset({"links"}))
    with pytest.raises(UsageError, match="Only links has no task 'nodes'"):
        compare([cheat, only_links], GRAPH, 2)
    with pytest.raises(UsageError, match="Two methods are called 'cheat': name one with register"):
        compare([cheat, Cheat({})], GRAPH, 2)
    with pytest.raises(UsageError, match="no metric 'f1' of nodes"):
        compare([cheat], GRAPH, 2, metric="f1")
    assert cheat.sides == []
    with pytest.raises(UsageError, match="methods must be a list of methods"):
        compare("logistic", GRAPH)
    with pytest.raises(UsageError, match="methods must be a list of methods"):
        compare([], GRAPH)


def test_two_estimators_are_told_apart_by_registered_names() -> None:
    register_method("few", small_model(epochs=1))
    register_method("more", small_model(epochs=2))
    try:
        assert [each.method for each in compare(["few", "more"], GRAPH, 1).methods] == [
            "few",
            "more",
        ]
    finally:
        for name in ("few", "more"):
            forget_method(name)
