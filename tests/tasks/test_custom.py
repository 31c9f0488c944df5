"""Alike is whatever a function says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from xtcl.config import FIXED_RULES, RECIPES, EnsembleConfig
from xtcl.errors import DataError, UsageError
from xtcl.estimator import XTCL
from xtcl.graph.datasets.synthetic import block_model
from xtcl.relations.view import TrainingView
from xtcl.sampling.folds import Indicator
from xtcl.tasks import TASKS, make_task
from xtcl.tasks.custom import CustomTask
from xtcl.tasks.fit import fit_task
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.task import Selected, Task
from xtcl.tasks.training_data import TrainingData

GRAPH = block_model(60, num_classes=3)
CPU = torch.device("cpu")


def view_of(labelled: int = 30) -> TrainingView:
    return TrainingView.of(GRAPH, np.arange(labelled))


def near(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Numbers that differ by less than five."""
    return np.asarray(np.abs(u[:, None] - v) < 5)


def labelled_pairs(
    task: CustomTask, folds: int
) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """The ordered pairs that count, and those of them that are alike, over all folds."""
    counted, alike = set(), set()
    for fold in task.folds(view_of(), folds, np.random.default_rng(0)):
        same, counts = fold.dense_labels(fold.queries)
        for i, u in enumerate(fold.queries.tolist()):
            for j, v in enumerate(fold.candidates.tolist()):
                if counts[i, j]:
                    counted.add((u, v))
                    if same[i, j]:
                        alike.add((u, v))
    return counted, alike


def test_literally_all_known_pairs_are_judged_by_the_function() -> None:
    known = [3, 4, 9, 20, 41]
    counted, alike = labelled_pairs(CustomTask(near, np.array(known)), folds=0)
    assert counted == {(u, v) for u in known for v in known if u != v}
    assert alike == {(u, v) for u, v in counted if abs(u - v) < 5}


def test_cross_fitting_labels_pairs_inside_a_fold_and_hides_their_labels() -> None:
    task = CustomTask(near, np.arange(20))
    folds = task.folds(view_of(), 4, np.random.default_rng(0))
    assert sorted(np.concatenate([fold.queries for fold in folds]).tolist()) == list(range(20))
    for fold in folds:
        assert (fold.view.labels[fold.queries] == -1).all()
        shown = np.setdiff1d(np.arange(30), fold.queries)
        assert GRAPH.labels is not None
        np.testing.assert_array_equal(fold.view.labels[shown], GRAPH.labels[shown])


def test_a_function_of_classes_is_node_classification() -> None:
    assert GRAPH.labels is not None
    labels = GRAPH.labels
    own = CustomTask(lambda u, v: labels[u][:, None] == labels[v], np.arange(30))
    theirs = NodeClassification().folds(view_of(), 5, np.random.default_rng(3))
    for mine, other in zip(own.folds(view_of(), 5, np.random.default_rng(3)), theirs, strict=True):
        np.testing.assert_array_equal(mine.queries, other.queries)
        for one, two in zip(
            mine.dense_labels(mine.queries), other.dense_labels(other.queries), strict=True
        ):
            np.testing.assert_array_equal(one, two)


def test_known_nodes_are_a_set() -> None:
    assert CustomTask(near, np.array([5, 3, 5])).known.tolist() == [3, 5]


def test_known_nodes_may_be_a_mask() -> None:
    mask = np.zeros(60, dtype=bool)
    mask[[3, 41]] = True
    assert CustomTask(near, mask).known.tolist() == [3, 41]


@pytest.mark.parametrize(
    ("alike", "got"),
    [
        (lambda u, v: u == v, r"bool of shape \[9\]"),
        (lambda u, v: near(v, u)[:, :-1], r"bool of shape \[9, 8\]"),
        (lambda u, v: np.ones((9, 9)) / 2, r"float64 of shape \[9, 9\]"),
        (lambda u, v: None, r"object of shape \[\]"),
    ],
)
def test_an_answer_of_another_kind_or_shape_is_refused(alike: Indicator, got: str) -> None:
    (fold,) = CustomTask(alike, np.arange(9)).folds(view_of(), 0, np.random.default_rng(0))
    with pytest.raises(UsageError, match=rf"array of shape \[9, 9\] .* but gave {got}\.$"):
        fold.dense_labels(fold.queries)


def test_zeros_and_ones_are_answers() -> None:
    task = CustomTask(lambda u, v: near(u, v).astype(float), np.arange(9))
    (fold,) = task.folds(view_of(), 0, np.random.default_rng(0))
    alike, _ = fold.dense_labels(fold.queries)
    assert alike.dtype == bool
    np.testing.assert_array_equal(alike, near(fold.queries, fold.queries))


@pytest.mark.parametrize(("known", "named"), [([0, 60], 60), ([-1, 2], -1)])
def test_known_nodes_outside_the_graph_are_named(known: list[int], named: int) -> None:
    with pytest.raises(UsageError, match=f"names node {named}, but the graph has nodes 0 to 59"):
        CustomTask(near, np.array(known)).folds(view_of(), 5, np.random.default_rng(0))


def test_too_few_known_nodes_are_refused() -> None:
    with pytest.raises(DataError, match="two labelled training nodes and got 1"):
        CustomTask(near, np.array([3])).folds(view_of(), 5, np.random.default_rng(0))


def test_there_is_no_head_and_no_answer() -> None:
    task: Task = CustomTask(near, np.arange(9))
    side = TrainingData(GRAPH)
    assert task.fit_head(side, torch.zeros(60, 2), Selected(EnsembleConfig()), 0) is None
    with pytest.raises(UsageError, match="has no head, so there is nothing to predict or score"):
        fit_task(side, task).answer  # noqa: B018 - asking is refused


def test_tasks_by_name() -> None:
    assert set(TASKS) == {"nodes", "links"}
    for name, kind in TASKS.items():
        made = make_task(name)
        assert type(made) is kind
        assert made.name == name
    own = CustomTask(near, np.arange(9))
    assert make_task(own) is own
    with pytest.raises(
        UsageError, match=r"There is no task 'custom'. Known: nodes, links; or give"
    ):
        make_task("custom")


def test_all_of_the_best_candidates_are_positives() -> None:
    """Where alike pairs are rare no chance is high, and none need be."""
    recipe = CustomTask(near, np.arange(30)).recipe("gcn")
    assert recipe.min_probability == 0.0
    fixed_rules = NodeClassification().named_recipe(FIXED_RULES, "gcn")
    assert fixed_rules.min_probability > 0.0
    # The encoders of the fixed rules: without a head, hidden labels have nothing to choose.
    assert recipe.ensembles == fixed_rules.ensembles
    assert recipe.hidden_parts == 0


def test_its_one_recipe_has_the_name_of_the_fixed_rules() -> None:
    task = CustomTask(near, np.arange(30))
    assert task.named_recipe(FIXED_RULES, "gat") == task.recipe("gat")
    for name in set(RECIPES) - {FIXED_RULES}:
        with pytest.raises(UsageError, match=f"'{name}' is for nodes; for custom there is '2026-"):
            XTCL(task, recipe=name).fit(GRAPH)


class OwnHead(NodeClassification):
    """Classes with a head that is a plain number."""

    name = "own-head"

    def fit_head(self, *_: object) -> float:  # type: ignore[override]
        return 0.5

    def self_train(self, *_: object) -> float:  # type: ignore[override]
        return 0.5

    def cv_log_likelihood(self, head: object) -> float:
        return float("nan")


def test_a_head_that_no_file_could_hold_is_not_saved(tmp_path: Path) -> None:
    model = XTCL(task=OwnHead(), recipe=FIXED_RULES, width=8, epochs=1).fit(GRAPH)
    assert model.head_ == 0.5
    with pytest.raises(UsageError, match="'own-head' has a head of its own"):
        model.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_methods_under_their_old_names_are_taken_and_warn() -> None:
    with pytest.warns(DeprecationWarning, match="Old.evidence is called cv_log_likelihood now"):

        class Old(NodeClassification):
            def evidence(self, head: object) -> float:
                return 3.0

    assert Old().cv_log_likelihood(None) == 3.0  # type: ignore[arg-type]
