from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from xtcl.errors import DataError, UsageError
from xtcl.lab.experiments.training_time import fit_growth


def plain_fit(sizes: list[float], times: list[float], confidence: float) -> tuple[float, ...]:
    """Exponent, interval and factor by the textbook's sums."""
    x, y = [math.log(n) for n in sizes], [math.log(t) for t in times]
    count = len(x)
    mean_x, mean_y = sum(x) / count, sum(y) / count
    spread = sum((a - mean_x) ** 2 for a in x)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread
    start = mean_y - slope * mean_x
    left = sum((b - start - slope * a) ** 2 for a, b in zip(x, y, strict=True))
    error = math.sqrt(left / (count - 2) / spread)
    reach = float(stats.t.ppf(0.5 + confidence / 2, count - 2)) * error
    return slope, slope - reach, slope + reach, math.exp(start)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("count", [3, 5, 12])
def test_the_fit_is_that_of_the_textbook(count: int, confidence: float) -> None:
    rng = np.random.default_rng(count)
    sizes = rng.integers(100, 10_000, size=count).astype(float).tolist()
    times = [1e-6 * n**1.7 * math.exp(rng.normal(scale=0.3)) for n in sizes]
    found = fit_growth(sizes, times, confidence=confidence)
    expected = plain_fit(sizes, times, confidence)
    assert (found.exponent, found.low, found.high, found.factor) == pytest.approx(expected)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_a_power_law_is_found_exactly(exponent: float) -> None:
    sizes = [500, 1000, 2000, 4000]
    growth = fit_growth(sizes, [3e-5 * n**exponent for n in sizes])
    assert growth.exponent == pytest.approx(exponent, abs=1e-9)
    assert growth.high - growth.low == pytest.approx(0, abs=1e-6)
    assert growth.at(8000) == pytest.approx(3e-5 * 8000**exponent)


def test_units_change_the_factor_only() -> None:
    sizes, seconds = [100, 300, 900, 2700], [0.1, 0.5, 5.0, 30.0]
    plain = fit_growth(sizes, seconds)
    other = fit_growth([n / 1000 for n in sizes], [1000 * t for t in seconds])
    assert (other.exponent, other.low, other.high) == pytest.approx(
        (plain.exponent, plain.low, plain.high)
    )
    assert other.at(0.9) == pytest.approx(1000 * plain.at(900))


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    sizes = [500, 1000, 2000, 4000, 8000]
    held = 0
    for _ in range(1000):
        times = [1e-6 * n**2 * math.exp(rng.normal(scale=0.2)) for n in sizes]
        growth = fit_growth(sizes, times, confidence=0.8)
        held += growth.low <= 2 <= growth.high
    assert 0.76 < held / 1000 < 0.84


def test_sizes_may_be_measured_several_times() -> None:
    growth = fit_growth([100, 100, 1000], [1.0, 1.2, 100.0])
    assert growth.low < growth.exponent < growth.high
    assert growth.exponent == pytest.approx(2 - math.log10(1.2) / 2)


@pytest.mark.parametrize(
    ("sizes", "times"),
    [([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [1, 2]), ([], [])],
)
def test_too_few_measurements_are_refused(sizes: list[float], times: list[float]) -> None:
    with pytest.raises(DataError, match="three measurements or more"):
        fit_growth(sizes, times)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_what_has_no_logarithm_is_refused(bad: float) -> None:
    with pytest.raises(DataError, match="greater than 0"):
        fit_growth([1, 2, 3], [1, 2, bad])
    with pytest.raises(DataError, match="greater than 0"):
        fit_growth([1, 2, bad], [1, 2, 3])


def test_a_confidence_outside_of_0_and_1_is_refused() -> None:
    with pytest.raises(UsageError, match="confidence=95"):
        fit_growth([1, 2, 3], [1, 2, 3], confidence=95)
