"""Chances are as high as held-out labels say, and never change the class."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load, save
from sklearn.linear_model import LogisticRegression
from small_runs import small_model
from torch.nn.functional import one_hot

from xtcl.config import FIXED_RULES
from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.splits import node_split
from xtcl.tasks import logistic, newton_cg
from xtcl.tasks.logistic import (
    C_VALUES,
    INVERSE_TEMPERATURES,
    LogisticHead,
    calibrated_likelihood,
    fit_logistic,
    inverse_temperature,
    logistic_path,
    match_temperature,
    refit_logistic,
    stratified_folds,
)
from xtcl.tasks.metrics import log_loss
from xtcl.tasks.newton_cg import HeadWeights

Floats = NDArray[np.float64]


Codes = NDArray[np.int64]


def clusters(n: int, d: int, classes: int, seed: int = 0) -> tuple[Floats, Codes]:
    """Overlapping classes of unequal size in columns of unequal size, away from the origin."""
    rng = np.random.default_rng(seed)
    labels = np.concatenate(
        [
            np.arange(classes),
            rng.choice(
                classes, n - classes, p=np.arange(1, classes + 1) / (classes * (classes + 1) / 2)
            ),
        ]
    )
    rows = rng.normal(size=(classes, d))[labels] + 1.5 * rng.normal(size=(n, d))
    return 3.0 + rows * np.logspace(0, -1, d), labels.astype(np.int64)


def prepared(rows: Floats, mean: Floats) -> Floats:
    """The documented preparation, row by row."""
    out = np.zeros(rows.shape)
    for i, row in enumerate(rows):
        length = np.sqrt(((row - mean) ** 2).sum())
        if length > 0:
            out[i] = (row - mean) / length
    return out


def gradient(head: LogisticHead, rows: Floats, labels: Codes, C: float) -> Floats:
    """Gradient of sum_i -log softmax(W x_i + b)[y_i] + |W|^2 / (2 C), by a loop over the rows."""
    d_coef, d_intercept = head.coef_ / C, np.zeros(len(head.classes_))
    for x, label in zip(prepared(rows, rows.mean(axis=0)), labels, strict=True):
        scores = head.coef_ @ x + head.intercept_
        p = np.exp(scores) / np.exp(scores).sum()
        p[np.searchsorted(head.classes_, label)] -= 1.0
        d_coef = d_coef + np.outer(p, x)
        d_intercept += p
    return np.concatenate([d_coef.ravel(), d_intercept])


@pytest.mark.parametrize(("n", "d"), [(60, 8), (30, 90), (40, 40)])
@pytest.mark.parametrize("C", [0.01, 3.0, 1e4])
def test_the_fit_has_converged(n: int, d: int, C: float) -> None:
    rows, labels = clusters(n, d, 4)
    (head,) = logistic_path(rows, labels, Cs=[C])
    # |W - W*| <= C |gradient|, so this is a relative error below 1e-8.
    size = np.linalg.norm(gradient(head, rows, labels, C))
    assert C * size < 1e-8 * np.linalg.norm(head.coef_)


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize(("classes", "factor"), [(4, 1.0), (2, 2.0)])
def test_it_is_scikit_learns_model(classes: int, factor: float, C: float) -> None:
    rows, labels = clusters(50, 6, classes)
    (head,) = logistic_path(rows, labels, Cs=[C])
    oracle = LogisticRegression(
        C=factor * C, solver="newton-cholesky", tol=1e-12, max_iter=1000
    ).fit(prepared(rows, rows.mean(axis=0)), labels)
    new, _ = clusters(20, 6, classes, seed=1)
    x = prepared(new, rows.mean(axis=0))
    np.testing.assert_allclose(head.predict_proba(new), oracle.predict_proba(x), atol=1e-7)
    np.testing.assert_array_equal(head.predict(new), oracle.predict(x))
    if classes > 2:
        np.testing.assert_allclose(head.coef_, oracle.coef_, rtol=1e-6, atol=1e-6)


def test_the_path_forgets_where_it_came_from() -> None:
    rows, labels = clusters(40, 60, 3)
    along = list(logistic_path(rows, labels))
    assert [head.C_ for head in along] == list(C_VALUES)
    for head in along:
        (alone,) = logistic_path(rows, labels, Cs=[head.C_])
        np.testing.assert_allclose(head.coef_, alone.coef_, rtol=1e-6, atol=1e-7)


def test_blocks_of_rows_change_nothing_but_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = clusters(40, 6, 3)
    (head,) = logistic_path(rows, labels, Cs=[5.0])
    whole = head.predict_proba(rows)
    monkeypatch.setattr(
        logistic, "_NUMBERS_PER_BLOCK", 21
    )  # three rows, and one left over at the end
    np.testing.assert_allclose(head.predict_proba(rows), whole, rtol=1e-12)
    np.testing.assert_array_equal(head.predict(rows), whole.argmax(axis=1))
    monkeypatch.setattr(logistic, "_NUMBERS_PER_BLOCK", 1)  # less than a row
    np.testing.assert_allclose(head.predict_proba(rows), whole, rtol=1e-12)


def test_the_device_is_the_cpu_unless_another_is_named() -> None:
    rows, labels = clusters(40, 6, 3)
    default, named = (fit_logistic(rows, labels, device=d) for d in (None, torch.device("cpu")))
    assert default.coef_.tobytes() == named.coef_.tobytes()
    assert isinstance(named.coef_, np.ndarray)
    assert isinstance(named.intercept_, np.ndarray)


def held_out_scores(x: np.ndarray, labels: np.ndarray, fold_of: np.ndarray, c: float) -> np.ndarray:
    """Scores of every row from a fit of scikit-learn that has not seen its fold."""
    scores = np.zeros((len(x), len(set(labels))))
    for fold in set(fold_of):
        held = fold_of == fold
        model = LogisticRegression(C=c, solver="newton-cholesky", tol=1e-10, max_iter=1000)
        scores[held] = model.fit(x[~held], labels[~held]).decision_function(x[held])
    return scores


def mean_likelihood(scores: np.ndarray, labels: np.ndarray, t: float) -> float:
    logs = []
    for row, label in zip(scores.tolist(), labels.tolist(), strict=True):
        logs.append(t * row[label] - math.log(sum(math.exp(t * s) for s in row)))
    return math.fsum(logs) / len(logs)


def test_c_values_far_past_the_likeliest_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = clusters(600, 40, 4)
    rows += 20 * np.random.default_rng(0).normal(size=rows.shape)
    tried: list[float] = []
    solve = newton_cg.solve_path

    def recorded(*problem: Any, **start: Any) -> Iterator[HeadWeights]:
        for C, fit in zip(problem[3], solve(*problem, **start), strict=True):
            if not start:  # the cross-validation, not the fit at the chosen C
                tried.append(C)
            yield fit

    monkeypatch.setattr(logistic, "solve_path", recorded)
    short = fit_logistic(rows, labels, Cs=C_VALUES)
    assert len(tried) < len(C_VALUES)
    tried.clear()
    monkeypatch.setattr(logistic, "_STOP_NATS", math.inf)
    full = fit_logistic(rows, labels, Cs=C_VALUES)
    assert tried == list(C_VALUES)
    assert pytest.approx(full.C_, rel=1e-6) == short.C_
    assert short.cv_likelihood_ == full.cv_likelihood_


@pytest.mark.parametrize("normalise", [False, True])
def test_a_head_that_is_refitted_later_is_the_head(normalise: bool) -> None:
    rows, labels = clusters(80, 12, 3)
    whole = fit_logistic(rows, labels, normalise=normalise)
    compared = fit_logistic(rows, labels, normalise=normalise, refit=False)
    assert compared.C_ == whole.C_
    assert compared.cv_likelihood_ == whole.cv_likelihood_
    assert not np.allclose(compared.coef_, whole.coef_, rtol=1e-6)
    done = refit_logistic(compared, rows, labels)
    np.testing.assert_allclose(done.coef_, whole.coef_, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(done.intercept_, whole.intercept_, rtol=1e-7, atol=1e-8)
    for name in ("C_", "cv_accuracy_", "cv_likelihood_", "inverse_temperature_", "scale_"):
        assert getattr(done, name) == getattr(whole, name)


def test_without_held_out_rows_there_is_always_a_refit() -> None:
    rows, labels = np.eye(3), np.arange(3)
    compared = fit_logistic(rows, labels, refit=False)
    np.testing.assert_array_equal(compared.coef_, fit_logistic(rows, labels).coef_)


@pytest.mark.parametrize("seed", range(4))
def test_the_c_is_the_mean_of_its_posterior(seed: int) -> None:
    rows, labels = clusters(80, 5, 3, seed=seed)
    Cs = [0.01, 0.3, 10.0, 1000.0]
    head = fit_logistic(rows, labels, Cs=Cs, folds=4, seed=7)
    x, fold_of = prepared(rows, rows.mean(axis=0)), stratified_folds(labels, 4, 7)
    held_out = [held_out_scores(x, labels, fold_of, c) for c in Cs]
    likelihood = [
        max(mean_likelihood(scores, labels, t) for t in INVERSE_TEMPERATURES) for scores in held_out
    ]
    posterior = [math.exp(80 * (each - max(likelihood))) for each in likelihood]
    parts = [p * math.log(c) for p, c in zip(posterior, Cs, strict=True)]
    assert pytest.approx(math.exp(sum(parts) / sum(posterior)), rel=0.02) == head.C_
    best = int(np.argmax(likelihood))
    assert head.cv_likelihood_ == pytest.approx(likelihood[best], abs=1e-3)
    assert head.cv_accuracy_ == pytest.approx((held_out[best].argmax(axis=1) == labels).mean())


def test_a_weak_penalty_is_not_blamed_for_scores_that_are_too_sure() -> None:
    """Scores three times as large: their likelihood is worse, calibrated it is the same."""
    scores = torch.tensor([[2.0, 0.0], [0.2, 0.4], [1.5, -0.5], [0.9, 0.1]], dtype=torch.float64)
    codes = torch.tensor([0, 1, 0, 1])
    plain = [float(s.log_softmax(1).gather(1, codes[:, None]).mean()) for s in (scores, 3 * scores)]
    found = [calibrated_likelihood(s, codes) for s in (scores, 3 * scores)]
    assert plain[1] < plain[0] - 0.1
    assert found[1] == pytest.approx(found[0], abs=0.002)
    assert found[0] >= plain[0]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(2, 6), st.integers(0, 3))
def test_folds_are_even_and_no_training_part_lacks_a_class(
    labels: list[int], folds: int, seed: int
) -> None:
    codes = np.array(labels)
    fold_of = stratified_folds(codes, folds, seed)
    for code in set(labels):
        members = fold_of[codes == code]
        if len(members) == 1:
            assert members[0] == -1
            continue
        counts = np.bincount(members, minlength=folds)
        assert counts.max() - counts.min() <= 1
        assert all((members != fold).any() for fold in range(folds))
    sizes = np.bincount(fold_of[fold_of >= 0], minlength=folds)
    assert sizes.max() - sizes.min() <= 1


def test_another_seed_deals_other_folds() -> None:
    codes = np.zeros(30, dtype=np.int64)
    first, again, other = (stratified_folds(codes, 5, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_c_values_that_are_equally_good_meet_in_the_middle() -> None:
    _, labels = clusters(30, 2, 3)
    head = fit_logistic(np.zeros((30, 4)), labels)
    assert pytest.approx(np.exp(np.log(C_VALUES).mean())) == head.C_


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("value", [0.0, 0.05])  # the mean of seven 0.05 is off by rounding
def test_an_embedding_that_says_nothing_gives_the_class_shares(
    value: float, normalise: bool
) -> None:
    labels = np.array([0, 2, 2, 5, 5, 5, 5])
    rows = np.full((7, 3), value)
    head = fit_logistic(rows, labels, normalise=normalise)
    assert not head.coef_.any()
    expected = np.tile([1 / 7, 0, 2 / 7, 0, 0, 4 / 7, 0], (7, 1))
    np.testing.assert_allclose(head.predict_proba(rows, 7), expected, atol=1e-12)
    assert head.predict(rows).tolist() == [5] * 7


def test_classes_without_a_training_row_get_no_probability() -> None:
    rows, codes = clusters(40, 5, 3)
    labels = np.array([1, 4, 6])[codes]
    head = fit_logistic(rows, labels)
    proba = head.predict_proba(rows, 9)
    assert head.classes_.tolist() == [1, 4, 6]
    assert proba.shape == (40, 9)
    assert set(np.flatnonzero(proba.any(axis=0))) == {1, 4, 6}
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(proba.argmax(axis=1), head.predict(rows))


def test_small_classes_neither_fail_nor_warn() -> None:
    rows, _ = clusters(12, 4, 2)
    labels = np.array([0] * 7 + [1] * 2 + [2, 3, 3])
    head = fit_logistic(rows, labels)
    assert head.classes_.tolist() == [0, 1, 2, 3]
    assert C_VALUES[0] <= head.C_ <= C_VALUES[-1]
    assert 0.0 <= head.cv_accuracy_ <= 1.0


def test_with_nothing_to_hold_out_the_usual_c_is_taken() -> None:
    head = fit_logistic(np.eye(3), np.array([0, 1, 2]))
    assert head.C_ == 3.0
    assert np.isnan(head.cv_accuracy_)
    assert np.isnan(head.cv_likelihood_)
    assert head.predict(np.eye(3)).tolist() == [0, 1, 2]


def test_rows_of_unit_mean_square_without_normalising() -> None:
    rows, labels = clusters(40, 5, 3)
    (head,) = logistic_path(rows, labels, Cs=[2.0], normalise=False)
    centred = rows - rows.mean(axis=0)
    scale = np.sqrt((centred**2).sum() / 40)
    oracle = LogisticRegression(C=2.0, solver="newton-cholesky", tol=1e-12).fit(
        centred / scale, labels
    )
    assert head.scale_ == pytest.approx(scale)
    np.testing.assert_allclose(head.coef_, oracle.coef_, atol=1e-6)


@pytest.mark.parametrize("normalise", [True, False])
def test_shift_and_scale_of_the_embedding_do_not_matter(normalise: bool) -> None:
    rows, labels = clusters(40, 50, 3)
    moved = 1000.0 * rows - 77.0
    before = fit_logistic(rows, labels, normalise=normalise)
    after = fit_logistic(moved, labels, normalise=normalise)
    assert pytest.approx(before.C_) == after.C_
    np.testing.assert_allclose(after.predict_proba(moved), before.predict_proba(rows), atol=1e-8)


def test_a_row_at_the_mean_up_to_rounding_is_scored_by_the_intercept_alone() -> None:
    rows, labels = clusters(40, 5, 3)
    head = fit_logistic(rows, labels)
    likelihood = np.exp(head.intercept_)
    np.testing.assert_allclose(
        head.predict_proba([head.mean_, np.nextafter(head.mean_, np.inf)]),
        np.tile(likelihood / likelihood.sum(), (2, 1)),
    )


def test_the_same_seed_gives_the_same_bytes_and_global_state_is_left_alone() -> None:
    rows, labels = clusters(60, 20, 3)
    state = str(np.random.get_state())  # noqa: NPY002
    first, again = (fit_logistic(rows.astype(np.float32), labels, seed=3) for _ in range(2))
    assert str(np.random.get_state()) == state  # noqa: NPY002
    for name, tensor in first.to_tensors().items():
        assert tensor.tobytes() == again.to_tensors()[name].tobytes(), name


@pytest.mark.parametrize("normalise", [True, False])
def test_a_head_survives_a_safetensors_file(normalise: bool) -> None:
    rows, labels = clusters(40, 60, 3)
    head = fit_logistic(rows, labels, normalise=normalise)
    loaded = LogisticHead.from_tensors(load(save(head.to_tensors())))
    np.testing.assert_array_equal(loaded.predict_proba(rows, 5), head.predict_proba(rows, 5))
    assert loaded.C_ == head.C_
    assert loaded.cv_accuracy_ == head.cv_accuracy_
    assert loaded.cv_likelihood_ == head.cv_likelihood_
    assert loaded.inverse_temperature_ == head.inverse_temperature_
    assert loaded.normalise is normalise


def test_a_file_of_an_earlier_version_is_read() -> None:
    rows, labels = clusters(40, 6, 3)
    head = fit_logistic(rows, labels)
    arrays = head.to_tensors()
    arrays["strength"] = arrays.pop("C")
    arrays["sureness"] = arrays.pop("inverse_temperature")
    loaded = LogisticHead.from_tensors(load(save(arrays)))
    assert loaded.C_ == head.C_
    assert loaded.inverse_temperature_ == head.inverse_temperature_


def test_bad_data_are_named() -> None:
    rows, labels = clusters(10, 3, 2)
    with pytest.raises(DataError, match=r"10 training labels are of 1 class.*stratified"):
        fit_logistic(rows, np.zeros(10, dtype=int))
    with pytest.raises(DataError, match=r"0 training labels are of 0 class"):
        fit_logistic(rows[:0], labels[:0])
    with pytest.raises(DataError, match="Training rows 4 have a negative class code"):
        fit_logistic(rows, np.where(np.arange(10) == 4, -1, labels))
    with pytest.raises(DataError, match="one integer class code for each of the 10"):
        fit_logistic(rows, labels[:9])
    with pytest.raises(DataError, match="one integer class code"):
        fit_logistic(rows, labels.astype(float))
    broken = rows.copy()
    broken[[2, 7], 1] = np.nan
    with pytest.raises(DataError, match="not finite, in rows 2, 7"):
        fit_logistic(broken, labels)
    with pytest.raises(DataError, match="1 dimensions"):
        fit_logistic(rows[:, 0], labels)
    head = fit_logistic(rows, labels)
    with pytest.raises(DataError, match="2 columns, but the head was fitted on 3"):
        head.predict(rows[:, :2])
    with pytest.raises(DataError, match="lacks 'mean'"):
        LogisticHead.from_tensors({k: v for k, v in head.to_tensors().items() if k != "mean"})


def test_bad_parameters_are_named() -> None:
    rows, labels = clusters(10, 3, 2)
    with pytest.raises(UsageError, match=r"Cs is \[1.0, -2.0\]"):
        fit_logistic(rows, labels, Cs=[1.0, -2.0])
    with pytest.raises(UsageError, match=r"Cs is \[\]"):
        fit_logistic(rows, labels, Cs=[])
    with pytest.raises(UsageError, match="folds is 1"):
        fit_logistic(rows, labels, folds=1)
    with pytest.raises(UsageError, match="pass 2 or more"):
        fit_logistic(rows, labels).predict_proba(rows, 1)


def test_a_fit_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = clusters(30, 5, 3)
    monkeypatch.setattr(newton_cg, "_MAX_NEWTON_STEPS", 1)
    with pytest.raises(DataError, match=r"at C = 100 did not converge"):
        list(logistic_path(rows, labels, Cs=[100.0]))


def test_where_every_c_is_right_the_middle_is_taken() -> None:
    rows = np.repeat([[1.0, 0.0], [-1.0, 0.0]], 10, axis=0)
    head = fit_logistic(rows, np.repeat([0, 1], 10), Cs=(0.1, 1.0, 10.0))
    assert head.cv_accuracy_ == 1.0
    assert pytest.approx(1.0, rel=0.01) == head.C_


# Chances are as high as held-out labels say, and never change the class.


def drawn(rows: int, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores, and codes drawn from their softmax after multiplication by `factor`."""
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(rows, 4, generator=generator, dtype=torch.float64)
    chances = (factor * scores).softmax(dim=1)
    return scores, torch.multinomial(chances, 1, generator=generator)[:, 0]


@pytest.mark.parametrize("factor", [0.2, 1.0, 4.0])
def test_the_factor_that_made_the_labels_is_found(factor: float) -> None:
    assert inverse_temperature(*drawn(4000, factor)) == pytest.approx(factor, rel=0.15)


def test_ten_rows_without_a_mistake_are_no_certainty() -> None:
    scores = 2 * torch.eye(3, dtype=torch.float64)[torch.arange(10) % 3]
    factor = inverse_temperature(scores, torch.arange(10) % 3)
    assert factor < INVERSE_TEMPERATURES[-1]
    probabilities = (factor * scores).softmax(dim=1).max(dim=1).values
    np.testing.assert_allclose(probabilities, 11 / 13, atol=0.03)


def test_agreeing_undoes_a_factor() -> None:
    scores, _ = drawn(50, 1.0)
    assert match_temperature(3 * scores, scores.softmax(dim=1)) == pytest.approx(1 / 3, rel=0.07)


@pytest.mark.parametrize("block", [1, 700, 2**18])
def test_factors_tried_together_are_factors_tried_one_by_one(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logistic, "_CALIBRATION_BLOCK", block)
    scores, codes = drawn(30, 0.7)
    found = []
    for factor in INVERSE_TEMPERATURES:
        chances = np.exp(factor * scores.numpy())
        chances /= chances.sum(axis=1, keepdims=True)
        found.append(np.log(chances[np.arange(30), codes]).mean())
    assert calibrated_likelihood(scores, codes) == pytest.approx(max(found), rel=1e-12)
    assert (
        match_temperature(scores, one_hot(codes, 4)) == INVERSE_TEMPERATURES[int(np.argmax(found))]
    )


def test_calibration_keeps_classes_and_makes_held_out_labels_likelier() -> None:
    before, after = [], []
    for seed in range(4):
        graph = block_model(200, num_classes=3, num_attributes=16, seed=seed)
        split = node_split(graph, 0.3, seed=seed)
        model = small_model(recipe=FIXED_RULES, width=16, random_state=seed).fit(graph, split)
        plain = model.head_.predict_proba(model.embedding_, graph.num_classes)
        probabilities = model.predict_proba()
        np.testing.assert_array_equal(probabilities.argmax(axis=1), plain.argmax(axis=1))
        assert graph.labels is not None
        truth = graph.labels[split.test]
        before.append(log_loss(truth, plain[split.test]))
        after.append(log_loss(truth, probabilities[split.test]))
    assert np.mean(after) < np.mean(before) - 0.01


def test_a_head_that_held_nothing_out_stays_as_it_is() -> None:
    head = fit_logistic(np.eye(3), np.arange(3))  # a row for each class: none can be spared
    assert np.isnan(head.inverse_temperature_)
    assert head.calibrated() is head
