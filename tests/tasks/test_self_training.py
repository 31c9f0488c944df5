"""The head's second fit, on its own sure answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from xtcl.tasks import self_training as module
from xtcl.tasks.logistic import LogisticHead, fit_logistic
from xtcl.tasks.self_training import MIN_CV_ACCURACY, SELF_TRAINING_THRESHOLD, self_train

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
