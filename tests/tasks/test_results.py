"""Predictions of nodes: only the rows that are needed are computed, and the table is kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import small_graph, small_model, small_split

from xtcl.config import FIXED_RULES
from xtcl.estimator import XTCL
from xtcl.tasks import logistic
from xtcl.tasks.blend import BlendedHead, LinearMember
from xtcl.tasks.logistic import LogisticHead
from xtcl.tasks.results import ComputedPredictions, NodePredictions

TABLE = np.random.default_rng(0).random((23, 4))


class Counted:
    """Rows of TABLE, and how many were computed."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(self, rows: slice) -> np.ndarray:
        self.rows.append(len(TABLE[rows]))
        return TABLE[rows].copy()


@settings(deadline=None)
@given(st.lists(st.integers(0, 22)), st.integers(1, 30), st.booleans())
def test_rows_are_those_of_the_table(nodes: list[int], block: int, whole: bool) -> None:
    computed = ComputedPredictions(Counted(), len(TABLE), block)
    if whole:
        np.testing.assert_array_equal(computed.probabilities, TABLE)
    chosen = np.array(nodes, dtype=np.int64)
    np.testing.assert_array_equal(computed.of(chosen), TABLE[chosen])
    np.testing.assert_array_equal(computed.predictions, TABLE.argmax(axis=1))


def test_no_more_than_the_blocks_of_the_nodes_are_computed() -> None:
    counted = Counted()
    computed = ComputedPredictions(counted, len(TABLE), 5)
    computed.of(np.array([3, 22, 4]))
    assert counted.rows == [5, 3]


def test_the_whole_table_is_computed_once() -> None:
    counted = Counted()
    computed = ComputedPredictions(counted, len(TABLE), 5)
    computed.of(np.arange(23))
    assert sum(counted.rows) == 23
    assert computed.probabilities is computed.probabilities
    computed.of(np.array([3]))
    assert sum(counted.rows) == 23


@pytest.mark.parametrize("kind", ["table", "computed"])
def test_rows_are_a_copy(kind: str) -> None:
    table = TABLE.copy()
    answer = NodePredictions(table)
    if kind == "computed":
        answer = ComputedPredictions(lambda rows: table[rows], len(table), 5)
        assert answer.probabilities is not table
    answer.of(np.arange(23))[:] = -1
    np.testing.assert_array_equal(answer.probabilities, TABLE)


@pytest.fixture
def head_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows given to the logistic head, a list that grows."""
    given: list[int] = []
    score = LogisticHead.decision_tensor

    def counted(head: LogisticHead, rows: torch.Tensor) -> torch.Tensor:
        given.append(len(rows))
        return score(head, rows)

    monkeypatch.setattr(LogisticHead, "decision_tensor", counted)
    return given


def fitted(recipe: str | None, monkeypatch: pytest.MonkeyPatch) -> tuple[XTCL, int]:
    """A model of 80 nodes whose heads score seven at a time, and how many of them are logistic."""
    graph = small_graph()
    model = small_model(recipe=recipe, epochs=1).fit(graph, small_split(graph, "nodes"))
    monkeypatch.setattr(logistic, "_NUMBERS_PER_BLOCK", 7 * model.embedding_.shape[1])
    heads = model.head_.members if isinstance(model.head_, BlendedHead) else [model.head_]
    count = sum(isinstance(head, (LinearMember, LogisticHead)) for head in heads)
    assert count >= 1
    return model, count


RECIPES = pytest.mark.parametrize("recipe", [None, FIXED_RULES])


@RECIPES
def test_a_few_nodes_are_predicted_without_the_others(
    recipe: str | None, monkeypatch: pytest.MonkeyPatch, head_rows: list[int]
) -> None:
    model, heads = fitted(recipe, monkeypatch)
    head_rows.clear()
    few = model.predict_proba([3, 8, 79])
    assert sum(head_rows) == heads * (7 + 7 + 3)
    label = model.predict([3])
    assert sum(head_rows) == heads * (7 + 7 + 3 + 7)
    whole = model.predict_proba()
    assert few.tobytes() == whole[[3, 8, 79]].tobytes()
    assert label == model.predict()[3]
    assert sum(head_rows) == heads * (7 + 7 + 3 + 7 + 80)  # all nodes once, for both calls


@RECIPES
def test_scores_and_predictions_share_one_table(
    recipe: str | None, monkeypatch: pytest.MonkeyPatch, head_rows: list[int]
) -> None:
    model, heads = fitted(recipe, monkeypatch)
    head_rows.clear()
    assert model.split_ is not None
    for _ in range(2):
        model.score(model.split_)
        model.test_metrics(model.split_)
        model.predict()
        model.predict_proba([3])
    assert sum(head_rows) == heads * 80
