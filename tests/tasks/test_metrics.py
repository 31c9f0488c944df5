from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.tasks.metrics import (
    METRIC_TITLES,
    METRICS,
    accuracy,
    auc,
    average_precision,
    balanced_accuracy,
    base_rate,
    check_metric,
    device_auc,
    displayed_score,
    hits_at_k,
    link_metrics,
    log_loss,
    macro_f1,
    mean_reciprocal_rank,
    node_metrics,
)

# Few distinct values, negative ones among them, so that ties are the rule.
scores = st.lists(st.sampled_from([-3.0, -1.5, -1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=12)
labels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=15)


def auc_by_loops(pos: list[float], neg: list[float]) -> float:
    won = sum(1.0 if p > n else 0.5 if p == n else 0.0 for p in pos for n in neg)
    return won / (len(pos) * len(neg))


def average_precision_by_loops(pos: list[float], neg: list[float]) -> float:
    total, recalled = 0.0, 0
    for threshold in sorted({*pos, *neg}, reverse=True):
        true = sum(p >= threshold for p in pos)
        false = sum(n >= threshold for n in neg)
        total += (true - recalled) / len(pos) * true / (true + false)
        recalled = true
    return total


def hits_by_loops(pos: list[float], neg: list[float], k: int) -> float:
    hits = 0
    for p in pos:
        at_or_above = sum(n >= p for n in neg)
        hits += at_or_above < k
    return hits / len(pos)


def reciprocal_rank_by_loops(p: float, neg: list[float]) -> float:
    optimistic = 1 + sum(n > p for n in neg)
    pessimistic = 1 + sum(n >= p for n in neg)
    return 1 / ((optimistic + pessimistic) / 2)


def macro_f1_by_loops(true: list[int], predicted: list[int]) -> float:
    found = []
    for c in {*true, *predicted}:
        tp = sum(t == c == p for t, p in zip(true, predicted, strict=True))
        wrong = sum((t == c) != (p == c) for t, p in zip(true, predicted, strict=True))
        found.append(2 * tp / (2 * tp + wrong))
    return sum(found) / len(found)


def balanced_accuracy_by_loops(true: list[int], predicted: list[int]) -> float:
    recalls = []
    for c in {*true}:
        hits = [p == c for t, p in zip(true, predicted, strict=True) if t == c]
        recalls.append(sum(hits) / len(hits))
    return sum(recalls) / len(recalls)


@given(scores, scores)
def test_auc_and_average_precision_count_pairs(pos: list[float], neg: list[float]) -> None:
    assert auc(pos, neg) == pytest.approx(auc_by_loops(pos, neg))
    assert device_auc(torch.tensor(pos), torch.tensor(neg)) == auc(pos, neg)
    assert average_precision(pos, neg) == pytest.approx(average_precision_by_loops(pos, neg))


@given(scores, scores, st.integers(1, 14))
def test_hits_are_links_with_fewer_than_k_non_links_at_or_above(
    pos: list[float], neg: list[float], k: int
) -> None:
    assert hits_at_k(pos, neg, k) == pytest.approx(hits_by_loops(pos, neg, k))


@given(scores, scores)
def test_mrr_uses_the_realistic_rank(pos: list[float], neg: list[float]) -> None:
    expected = sum(reciprocal_rank_by_loops(p, neg) for p in pos) / len(pos)
    assert mean_reciprocal_rank(pos, neg) == pytest.approx(expected)
    assert mean_reciprocal_rank(pos, np.tile(neg, (len(pos), 1))) == pytest.approx(expected)


def test_mrr_gives_each_link_its_own_row_of_non_links() -> None:
    # Ranks 1 and 2.5: one better, one tied.
    found = mean_reciprocal_rank([-1.0, -2.0], [[-3.0, -2.0], [-1.0, -2.0]])
    assert found == pytest.approx((1 + 1 / 2.5) / 2)


def test_negative_scores_rank_like_positive_ones() -> None:
    pos, neg = np.array([0.9, 0.4]), np.array([0.5, 0.1, 0.4])
    assert link_metrics(pos - 10, neg - 10, ks=(1, 2)) == pytest.approx(
        link_metrics(pos, neg, ks=(1, 2))
    )


@given(labels)
def test_metrics_of_classes_count_nodes(pairs: list[tuple[int, int]]) -> None:
    true, predicted = [t for t, _ in pairs], [p for _, p in pairs]
    assert accuracy(true, predicted) == pytest.approx(sum(t == p for t, p in pairs) / len(pairs))
    assert macro_f1(true, predicted) == pytest.approx(macro_f1_by_loops(true, predicted))
    expected = balanced_accuracy_by_loops(true, predicted)
    assert balanced_accuracy(true, predicted) == pytest.approx(expected)
    assert base_rate(true) == max(true.count(c) for c in true) / len(true)


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.2, 0.5, 1.0])), min_size=1))
def test_two_classes_are_ranked_by_the_second(pairs: list[tuple[int, float]]) -> None:
    true, second = [t for t, _ in pairs], [p for _, p in pairs]
    found = node_metrics(true, [p > 0.5 for p in second], [[1 - p, p] for p in second])
    pos, neg = [p for t, p in pairs if t == 1], [p for t, p in pairs if t == 0]
    if not pos or not neg:  # not defined, and no warning either
        assert list(found) == ["accuracy", "balanced_accuracy", "macro_f1", "log_loss"]
        return
    assert tuple(found) == METRICS["nodes"]
    assert found["roc_auc"] == pytest.approx(auc_by_loops(pos, neg))
    assert found["average_precision"] == pytest.approx(average_precision_by_loops(pos, neg))


def test_log_loss_is_finite_for_a_class_of_probability_zero() -> None:
    proba = [[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]]
    expected = -(math.log(0.75) + math.log(np.finfo(float).eps)) / 2
    assert log_loss([1, 2], proba) == pytest.approx(expected)


def test_bundles_name_their_figures() -> None:
    assert set(node_metrics([0, 1], [0, 0])) == {"accuracy", "balanced_accuracy", "macro_f1"}
    assert "roc_auc" not in node_metrics([0, 1], [0, 1], np.eye(3)[:2])
    with_proba = node_metrics([0, 1], [0, 0], [[1.0, 0.0], [0.5, 0.5]])
    assert with_proba["log_loss"] == pytest.approx(math.log(2) / 2)
    links = link_metrics([1.0], [0.0])
    assert tuple(links) == METRICS["links"]
    assert set(METRIC_TITLES) <= set(METRICS["nodes"])
    assert all(type(value) is float and value == 1.0 for value in links.values())


def test_no_non_links_is_an_error_only_where_the_figure_needs_them() -> None:
    assert hits_at_k([0.1], [], 1) == 1.0
    assert mean_reciprocal_rank([0.1], []) == 1.0
    with pytest.raises(DataError, match="no non-links"):
        auc([0.1], [])


def test_bad_input_is_named() -> None:
    with pytest.raises(DataError, match="no links to score"):
        hits_at_k([], [1.0], 1)
    with pytest.raises(DataError, match=r"links are not finite at 1"):
        auc([0.0, np.nan], [1.0])
    with pytest.raises(DataError, match=r"non-links are not finite at 2"):
        mean_reciprocal_rank([0.0, 1.0], [[1.0, 2.0], [np.inf, 0.0]])
    with pytest.raises(DataError, match="2 links but 1 rows"):
        mean_reciprocal_rank([0.0, 1.0], [[1.0]])
    with pytest.raises(UsageError, match="k is 0"):
        hits_at_k([1.0], [0.0], 0)
    with pytest.raises(DataError, match="same length"):
        accuracy([0, 1], [0])
    with pytest.raises(DataError, match="same length"):
        macro_f1([], [])
    with pytest.raises(DataError, match="Nodes at 1 have a class without a column"):
        log_loss([0, 2], [[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(DataError, match="one row for each of the 2 nodes"):
        log_loss([0, 1], [[0.5, 0.5]])
    with pytest.raises(DataError, match="pass one list of numbers"):
        auc([[1.0]], [0.0])


def test_a_metric_that_a_task_or_graph_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="no metric 'macro_f2' of nodes"):
        check_metric("macro_f2", "nodes")
    with pytest.raises(UsageError, match="no metric 'accuracy' of links"):
        check_metric("accuracy", "links")
    three, two = (block_model(30, num_classes=c, num_attributes=4, seed=0) for c in (3, 2))
    with pytest.raises(UsageError, match=r"'roc_auc' is for two classes, and graph '.*' has 3"):
        check_metric("roc_auc", "nodes", three)
    check_metric("roc_auc", "nodes", two)
    check_metric("average_precision", "links", three)


def test_people_read_percent_but_for_log_loss() -> None:
    assert displayed_score("accuracy", 0.123456789) == 12.3457
    assert displayed_score("log_loss", 0.123456789) == 0.1235
