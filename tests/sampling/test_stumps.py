from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from xtcl.sampling.stumps import (
    Stumps,
    fit_stumps,
    precision,
    prior_log_odds,
    sigmoid,
    training_order,
)


def xgboost_leaves(
    feature: np.ndarray, y: np.ndarray, margin: np.ndarray, penalty: float, method: str
) -> tuple[float, float]:
    """What one stump of xgboost on a 0/1 feature adds below and above."""
    data = xgboost.DMatrix(feature[:, None].astype(float), label=y, base_margin=margin)
    parameters = {
        "objective": "binary:logistic",
        "max_depth": 1,
        "eta": 1.0,
        "lambda": penalty,
        "gamma": 0.0,
        "min_child_weight": 0.0,
        "base_score": 0.5,
        "tree_method": method,
        "nthread": 1,
    }
    booster = xgboost.train(parameters, data, num_boost_round=1)
    ends = xgboost.DMatrix(np.array([[0.0], [1.0]]), base_margin=np.zeros(2))
    below, above = booster.predict(ends, output_margin=True)
    return float(below), float(above)


def table_of(levels: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows of levels and how often each occurred with y = 0 and 1."""
    patterns, which = np.unique(levels, axis=0, return_inverse=True)
    counts = np.zeros((len(patterns), 2), dtype=np.int64)
    np.add.at(counts, (which.ravel(), y.astype(int)), 1)
    return patterns, counts


@pytest.mark.parametrize("penalty", [0.0, 0.5, 1.0, 20.0])
@pytest.mark.parametrize("method", ["exact", "hist"])
@pytest.mark.parametrize("seed", range(3))
def test_one_relation_is_one_stump_of_xgboost(penalty: float, method: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    above = rng.random(400) < 0.2
    y = rng.random(400) < np.where(above, 0.7, 0.25)
    patterns, counts = table_of(above[:, None].astype(int), y)
    stumps = fit_stumps(patterns, counts, num_levels=2, order=[0], penalty=penalty)
    theirs = xgboost_leaves(above, y, np.zeros(400), penalty, method)
    assert stumps.weights[0] == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_relations_in_turn_are_stumps_of_xgboost_in_turn(seed: int) -> None:
    """Each round of xgboost sees one relation and starts from the margins so far."""
    rng = np.random.default_rng(seed)
    y = rng.random(1500) < 0.3
    levels = np.stack([rng.random(1500) < 0.1 + 0.12 * k * y for k in (5, 1, 3, 2)], axis=1)
    patterns, counts = table_of(levels.astype(int), y)
    order = [2, 0, 3, 1]
    stumps = fit_stumps(patterns, counts, num_levels=2, order=order)
    margin = np.zeros(1500)
    for relation in order:
        theirs = xgboost_leaves(levels[:, relation], y, margin, 1.0, "exact")
        assert stumps.weights[relation] == pytest.approx(theirs, rel=1e-4, abs=1e-6)
        margin += np.where(levels[:, relation], theirs[1], theirs[0])


def test_many_sweeps_reach_the_penalised_maximum_likelihood() -> None:
    """At the fixed point of unpenalised sweeps every leaf's expected matches are its matches."""
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 3, size=(500, 3))
    y = rng.random(500) < sigmoid(levels @ np.array([1.0, -0.5, 0.2]) - 1)
    patterns, counts = table_of(levels, y)
    stumps = fit_stumps(
        patterns, counts, num_levels=3, order=[0, 1, 2], base=-0.3, sweeps=300, penalty=0.0
    )
    expected = counts.sum(axis=1) * sigmoid(stumps.margins(patterns))
    for relation in range(3):
        for level in range(3):
            here = patterns[:, relation] == level
            assert expected[here].sum() == pytest.approx(counts[here, 1].sum(), rel=1e-9)


RARE = (
    np.array([[0, 0], [0, 1], [1, 0], [1, 1]]),
    np.array([[13_000_000, 1_300], [130_000, 430], [190_000, 300], [25_000, 420]]),
)
"""Levels and counts like those of links: one pair in seven thousand matches."""


@pytest.mark.parametrize("shift", [0.0, -5.0, 5.0])
def test_rare_matches_reach_the_maximum_likelihood_too(shift: float) -> None:
    """Plain Newton steps overshoot there and end at weights of many thousands."""
    levels, counts = RARE
    base = prior_log_odds(counts) + shift
    fit = partial(
        fit_stumps,
        levels,
        counts,
        num_levels=2,
        order=[0, 1],
        base=base,
        sweeps=60,
        penalty=0.0,
    )
    stumps = fit(backtracking=True)
    expected = counts.sum(axis=1) * sigmoid(stumps.margins(levels))
    for relation in range(2):
        for level in range(2):
            here = levels[:, relation] == level
            assert expected[here].sum() == pytest.approx(counts[here, 1].sum(), rel=1e-6)
    assert np.abs(stumps.weights).max() < 10
    if shift <= 0:
        assert np.abs(fit(backtracking=False).weights).max() > 100


@given(
    counts=st.lists(
        st.tuples(st.integers(0, 10**7), st.integers(0, 10**4)), min_size=4, max_size=4
    ),
    base=st.floats(-20, 20),
    penalty=st.sampled_from([0.0, 1.0]),
)
def test_a_backtracking_fit_never_does_worse_for_going_on(
    counts: list[tuple[int, int]], base: float, penalty: float
) -> None:
    levels, table = RARE[0], np.array(counts)

    def loss(sweeps: int) -> float:
        stumps = fit_stumps(
            levels,
            table,
            num_levels=2,
            order=[1, 0],
            base=base,
            sweeps=sweeps,
            penalty=penalty,
            backtracking=True,
        )
        margin = stumps.margins(levels)
        return float((table.sum(axis=1) * np.logaddexp(0, margin) - table[:, 1] * margin).sum())

    losses = [loss(sweeps) for sweeps in range(1, 6)]
    assert all(b <= a * (1 + 1e-9) + 1e-6 for a, b in itertools.pairwise(losses))


@pytest.mark.parametrize("sweeps", [1, 30, 1000])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_weights_stay_finite_when_a_relation_decides_everything(
    sweeps: int, penalty: float
) -> None:
    levels, counts = np.array([[0, 0], [1, 0]]), np.array([[500, 0], [0, 20]])
    stumps = fit_stumps(levels, counts, num_levels=3, order=[0, 1], sweeps=sweeps, penalty=penalty)
    assert np.isfinite(stumps.weights).all()
    assert stumps.weights[0, 1] > 0 > stumps.weights[0, 0]
    assert (stumps.weights[:, 2] == 0).all()


def test_margins_are_the_base_and_the_weights_of_the_levels() -> None:
    stumps = Stumps(0.5, np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]]))
    assert stumps.margins(np.array([[0, 0], [2, 1], [1, 2]])).tolist() == [9.5, 20.5, 34.5]


@given(st.floats(-700, 700))
def test_sigmoid(x: float) -> None:
    assert sigmoid(np.array(x)) == pytest.approx(1 / (1 + math.exp(-x)), abs=1e-15)


def test_sigmoid_does_not_overflow() -> None:
    assert sigmoid(np.array([-1e9, 0.0, 1e9])).tolist() == [0.0, 0.5, 1.0]


def test_prior_log_odds_stay_finite() -> None:
    assert prior_log_odds(np.array([[5, 1], [4, 2]])) == pytest.approx(math.log(3.5 / 9.5))
    assert prior_log_odds(np.array([[7, 0]])) == pytest.approx(math.log(0.5 / 7.5))
    assert prior_log_odds(np.array([[0, 7]])) == pytest.approx(math.log(7.5 / 0.5))


def test_precision_counts_pairs_at_the_level() -> None:
    levels = np.array([[0, 1, 0], [1, 1, 0], [1, 2, 0]])
    counts = np.array([[10, 5], [3, 1], [0, 6]])
    shares, support = precision(levels, counts, 1)
    assert support.tolist() == [10, 19, 0]
    assert shares.tolist() == [7 / 10, 6 / 19, 0.0]


def test_training_order_falls_and_keeps_ties_as_listed() -> None:
    shares = np.array([0.2, 0.0, 0.9, 0.2, 0.0])
    support = np.array([3, 0, 1, 5, 8])
    assert training_order(shares, support) == [2, 0, 3, 4, 1]
