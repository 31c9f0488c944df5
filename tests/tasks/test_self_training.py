"""The head's second fit, on its own sure answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from xtcl.tasks import self_training as module
from xtcl.tasks.logistic import INVERSE_TEMPERATURES, LogisticHead, fit_logistic
from xtcl.tasks.self_training import (
    MIN_CV_ACCURACY,
    SELF_TRAINING_THRESHOLD,
    refit_on,
    self_train,
    shown_rows,
    threshold_for,
    with_pseudo_labels,
)

CLASSES = np.array([1, 2, 4])  # codes need not be 0, 1, ...


def blobs(spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of three classes, their classes, and the few whose class is known."""
    rng = np.random.default_rng(seed)
    kind = np.repeat(np.arange(3), 60)
    rows = 2.0 * rng.normal(size=(3, 6))[kind] + spread * rng.normal(size=(180, 6)) + 1.0
    known = np.concatenate([60 * k + np.arange(8) for k in range(3)])
    return rows, CLASSES[kind], known


def first_fit(rows: np.ndarray, labels: np.ndarray, known: np.ndarray) -> LogisticHead:
    return fit_logistic(rows[known], labels[known], seed=0)


def by_the_book(
    head: LogisticHead, rows: np.ndarray, labels: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """Chances of all rows under scikit-learn; the sure answers are found one by one."""
    taken, classes = [], []
    for node, row in enumerate(rows):
        chance = head.predict_proba(row[None])[0]
        if node in known:
            taken.append(node)
            classes.append(labels[node])
        elif chance.max() > SELF_TRAINING_THRESHOLD:
            taken.append(node)
            classes.append(int(np.argmax(chance)))
    centred = rows - rows[taken].mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    model = LogisticRegression(C=head.C_, tol=1e-10, max_iter=10_000)
    return np.asarray(model.fit(unit[taken], classes).predict_proba(unit))


def test_it_is_a_fit_on_labels_and_sure_answers() -> None:
    rows, labels, known = blobs(spread=0.9)
    head = first_fit(rows, labels, known)
    assert head.cv_accuracy_ >= MIN_CV_ACCURACY
    again = self_train(head, rows, known, labels[known])
    expected = by_the_book(head, rows, labels, known)
    np.testing.assert_allclose(again.predict_proba(rows)[:, CLASSES], expected, atol=1e-6)
    assert np.abs(again.coef_ - head.coef_).max() > 0.1
    kept = ("C_", "cv_accuracy_", "cv_likelihood_", "normalise")
    assert all(getattr(again, name) == getattr(head, name) for name in kept)


@pytest.mark.slow
def test_it_finds_classes_that_few_labels_do_not_show() -> None:
    gains = []
    for seed in range(20):
        rows, labels, known = blobs(spread=1.6, seed=seed)
        head = first_fit(rows, labels, known)
        again = self_train(replace(head, cv_accuracy_=1.0), rows, known, labels[known])
        gains.append(np.mean(again.predict(rows) == labels) - np.mean(head.predict(rows) == labels))
    assert np.mean(gains) > 0.005


def test_known_labels_outweigh_predictions() -> None:
    rows, labels, known = blobs(spread=0.9)
    head = first_fit(rows, labels, known)
    wrong = np.roll(CLASSES, 1)[np.searchsorted(CLASSES, labels[known])]
    again = self_train(head, rows, known, wrong)
    right = self_train(head, rows, known, labels[known])
    assert np.abs(again.coef_ - right.coef_).max() > 0.1


@pytest.mark.parametrize("accuracy", [0.79, float("nan")])
def test_a_head_that_is_often_wrong_is_no_teacher(accuracy: float) -> None:
    rows, labels, known = blobs(spread=0.9)
    head = replace(first_fit(rows, labels, known), cv_accuracy_=accuracy)
    assert self_train(head, rows, known, labels[known]) is head


def test_of_many_sure_answers_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels, known = blobs(spread=0.9)
    head = first_fit(rows, labels, known)
    every = self_train(head, rows, known, labels[known])
    monkeypatch.setattr(module, "MAX_PSEUDO_LABELS", 10)
    some = [self_train(head, rows, known, labels[known], seed=seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(some[0].coef_, some[1].coef_)
    assert np.abs(some[0].coef_ - some[2].coef_).max() > 0
    assert np.abs(some[0].coef_ - every.coef_).max() > 0


# Its parts, which hidden labels use, too.


def chances(num_rows: int, seed: int, sureness: float = 3.0) -> np.ndarray:
    """Class probabilities of which no two rows have the same largest one."""
    return np.asarray(
        softmax(sureness * np.random.default_rng(seed).normal(size=(num_rows, 3)), axis=1)
    )


@given(
    seed=st.integers(0, 999),
    num_rows=st.integers(1, 25),
    num_known=st.integers(0, 8),
    precision=st.sampled_from((0.5, 0.7, 0.85, 0.92, 0.99, 1.0)),
)
def test_the_threshold_takes_as_many_as_are_right_often_enough(
    seed: int, num_rows: int, num_known: int, precision: float
) -> None:
    probabilities = chances(num_rows, seed)
    known = np.random.default_rng(seed).permutation(num_rows)[:num_known]
    threshold = threshold_for(probabilities, known, precision)
    others = [max(row) for at, row in enumerate(probabilities.tolist()) if at not in known]
    others.sort(reverse=True)
    enough = [n for n in range(1, len(others) + 1) if np.mean(others[:n]) >= precision]
    most = max(enough, default=0)
    assert [each for each in others if each > threshold] == others[:most]
    if not most:
        assert threshold == 1.0
    # So the precision that was asked for is what the probabilities promise.
    nodes, codes = with_pseudo_labels(
        probabilities, known, np.zeros(len(known), dtype=np.int64), threshold=threshold, seed=0
    )
    assert len(nodes) == len(codes) == len(known) + most
    if most:
        assert probabilities[nodes[len(known) :]].max(axis=1).mean() >= precision


def test_no_row_or_none_but_known_ones_has_no_threshold_below_one() -> None:
    assert threshold_for(np.zeros((0, 3)), np.arange(0), 0.9) == 1.0
    assert threshold_for(chances(4, 0), np.arange(4), 0.5) == 1.0


def test_all_rows_alike_are_taken_together_or_not_at_all() -> None:
    probabilities = np.tile([0.9, 0.1], (40, 1))
    known = np.array([3, 5])
    assert threshold_for(probabilities, known, 0.9) < 0.9
    assert threshold_for(probabilities, known, 0.9) == pytest.approx(0.9)
    assert threshold_for(probabilities, known, 0.91) == 1.0


@given(
    seed=st.integers(0, 999),
    num_known=st.integers(0, 10),
    threshold=st.sampled_from((0.0, 0.6, 0.8, 0.95, 1.0)),
)
def test_pseudo_labels_are_the_sure_answers_after_the_labels(
    seed: int, num_known: int, threshold: float
) -> None:
    probabilities = chances(30, seed)
    rng = np.random.default_rng(seed)
    known, labels = rng.permutation(30)[:num_known], rng.integers(0, 3, num_known)
    nodes, codes = with_pseudo_labels(probabilities, known, labels, threshold=threshold, seed=0)
    expected = [(int(u), int(c)) for u, c in zip(known, labels, strict=True)]
    for u, row in enumerate(probabilities.tolist()):
        if u not in known and max(row) > threshold:
            expected.append((u, row.index(max(row))))
    assert list(zip(nodes.tolist(), codes.tolist(), strict=True)) == expected


def test_past_the_limit_a_seeded_part_of_them_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    probabilities, known = chances(200, 0), np.array([7, 3])
    labels = np.array([2, 1])

    def taken(seed: int) -> list[int]:
        nodes, codes = with_pseudo_labels(probabilities, known, labels, threshold=0.8, seed=seed)
        assert nodes[:2].tolist() == [7, 3]
        assert codes.tolist() == [2, 1, *probabilities[nodes[2:]].argmax(axis=1).tolist()]
        return [int(u) for u in nodes[2:]]

    every = taken(0)
    assert len(every) > 20
    monkeypatch.setattr(module, "MAX_PSEUDO_LABELS", len(every))
    assert taken(0) == every
    monkeypatch.setattr(module, "MAX_PSEUDO_LABELS", 20)
    some = [taken(seed) for seed in (0, 0, 1)]
    assert [len(each) for each in some] == [20] * 3
    assert some[0] == some[1] != some[2]
    assert all(each == sorted(set(each)) and set(each) < set(every) for each in some)


@pytest.mark.parametrize("limit", [None, 10])
def test_a_second_fit_has_the_c_and_the_calibration_of_the_first(
    limit: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit is not None:
        monkeypatch.setattr(module, "MAX_PSEUDO_LABELS", limit)
    rows, labels, known = blobs(spread=1.2)
    head = first_fit(rows, labels, known)
    nodes = np.concatenate([known, 60 * np.arange(3) + 30, 60 * np.arange(3) + 45])
    all_rows = torch.from_numpy(rows)
    again = refit_on(head, all_rows[nodes], labels[nodes], lambda: shown_rows(all_rows))
    centred = rows - rows[nodes].mean(axis=0)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    model = LogisticRegression(C=head.C_, tol=1e-10, max_iter=10_000)
    scores = model.fit(unit[nodes], labels[nodes]).decision_function(unit)
    np.testing.assert_allclose(again.predict_proba(rows)[:, CLASSES], softmax(scores, 1), atol=1e-6)
    # Of many rows some are enough to compare the probabilities.
    shown = slice(None) if limit is None else slice(None, None, len(rows) // limit)
    target = head.calibrated().predict_proba(rows)[shown][:, CLASSES]

    def agreement(t: float) -> float:
        return float((target * log_softmax(t * scores[shown], axis=1)).sum(axis=1).mean())

    assert again.inverse_temperature_ == max(INVERSE_TEMPERATURES, key=agreement)
    kept = ("C_", "cv_accuracy_", "cv_likelihood_", "normalise")
    assert all(getattr(again, name) == getattr(head, name) for name in kept)


def test_without_a_calibration_there_is_none_after_it_either() -> None:
    rows, labels, known = blobs(spread=1.2)
    head = replace(first_fit(rows, labels, known), inverse_temperature_=float("nan"))
    again = refit_on(head, torch.from_numpy(rows[known]), labels[known], pytest.fail)
    assert np.isnan(again.inverse_temperature_)
