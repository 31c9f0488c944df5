"""Chances are as high as held-out labels say, and never change the class."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_runs import small_model
from torch.nn.functional import one_hot

from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.splits import node_split
from xtcl.tasks import logistic
from xtcl.tasks.logistic import (
    INVERSE_TEMPERATURES,
    calibrated_likelihood,
    fit_logistic,
    inverse_temperature,
    match_temperature,
)
from xtcl.tasks.metrics import log_loss


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
    told = (factor * scores).softmax(dim=1).max(dim=1).values
    np.testing.assert_allclose(told, 11 / 13, atol=0.03)


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
        model = small_model(width=16, random_state=seed).fit(graph, split)
        plain = model.head_.predict_proba(model.embedding_, graph.num_classes)
        told = model.predict_proba()
        np.testing.assert_array_equal(told.argmax(axis=1), plain.argmax(axis=1))
        assert graph.labels is not None
        truth = graph.labels[split.test]
        before.append(log_loss(truth, plain[split.test]))
        after.append(log_loss(truth, told[split.test]))
    assert np.mean(after) < np.mean(before) - 0.01


def test_a_head_that_held_nothing_out_stays_as_it_is() -> None:
    head = fit_logistic(np.eye(3), np.arange(3))  # a row for each class: none can be spared
    assert np.isnan(head.inverse_temperature_)
    assert head.calibrated() is head
