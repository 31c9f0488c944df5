"""The stopping rule on loss curves made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xtcl.errors import UsageError
from xtcl.learning.stopping import Plateau


def stop_epoch(rule: Plateau, losses: Sequence[float]) -> int | None:
    """The first epoch after which the rule says stop."""
    epochs = range(1, len(losses) + 1)
    return next((epoch for epoch in epochs if rule.reached(losses[:epoch])), None)


def test_a_slope_that_ends() -> None:
    # The last two windows of three hold nothing but 4 after epoch 12 for the first time.
    losses = [10.0, 9.0, 8.0, 7.0, 6.0, 5.0, *[4.0] * 10]
    assert stop_epoch(Plateau(window=3, least_gain=0.02), losses) == 12


def test_a_step_between_the_windows() -> None:
    # A fall from 10 to 9.5 on average: 5 %.
    losses = [10.0, 10.0, 9.0, 10.0]
    assert stop_epoch(Plateau(window=2, least_gain=0.06), losses) == 4
    assert stop_epoch(Plateau(window=2, least_gain=0.04), losses) is None


@given(window=st.integers(1, 6), rate=st.floats(0.5, 1.0), gain=st.floats(0.0, 0.5))
def test_a_geometric_curve_stops_at_once_or_never(window: int, rate: float, gain: float) -> None:
    fall = 1 - rate**window  # from any window to the next
    if abs(fall - gain) > 1e-9:
        losses = [3.0 * rate**epoch for epoch in range(40)]
        expected = 2 * window if fall < gain else None
        assert stop_epoch(Plateau(window, gain), losses) == expected


@given(losses=st.lists(st.floats(0, 10), max_size=9), window=st.integers(5, 8))
def test_never_before_two_windows(losses: list[float], window: int) -> None:
    assert stop_epoch(Plateau(window, least_gain=1.0), losses) is None


@given(
    steps=st.lists(st.floats(0.01, 5), min_size=10, max_size=30),
    start=st.floats(0, 10),
    window=st.integers(1, 5),
)
def test_rising_losses_stop(steps: list[float], start: float, window: int) -> None:
    losses = [start + sum(steps[:epoch]) for epoch in range(len(steps))]
    assert stop_epoch(Plateau(window), losses) == 2 * window


@pytest.mark.parametrize("level", [0.0, 2.5])
@pytest.mark.parametrize("gain", [0.0, 0.02])
def test_a_flat_curve_stops(level: float, gain: float) -> None:
    assert stop_epoch(Plateau(window=3, least_gain=gain), [level] * 20) == 6


def test_only_the_last_two_windows_count() -> None:
    assert not Plateau(window=2).reached([1.0] * 10 + [9.0, 9.0, 5.0, 5.0])
    assert Plateau(window=2).reached([9.0, 5.0, 1.0, 1.0, 1.0, 1.0])


def test_an_empty_window() -> None:
    with pytest.raises(UsageError, match="window=0 must be at least 1"):
        Plateau(window=0)
