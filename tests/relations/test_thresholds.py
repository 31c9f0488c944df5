"""The n-th largest of a row is what sorting the row says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations import thresholds as module
from xtcl.relations.thresholds import (
    AboveRule,
    check_quantiles,
    levels,
    nth_largest,
    rank_from_top,
    thresholds,
)

QUANTILES = (0.0, 0.1, 0.25, 0.3, 0.5, 0.55, 0.7, 0.9, 0.95, 0.99, 0.999)


def exact_quantile(values: Sequence[float], quantile: float) -> Fraction:
    """Linear interpolation between the two nearest values, in fractions."""
    ordered = sorted(Fraction(value) for value in values)
    place = Fraction(str(quantile)) * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def expected_levels(row: Sequence[float], u: int, quantiles: Sequence[float]) -> list[int]:
    """s >= eta and s > 0, for every v but u."""
    others = [s for v, s in enumerate(row) if v != u]
    eta = [exact_quantile(others, q) for q in quantiles]
    return [0 if v == u else sum(s > 0 and s >= e for e in eta) for v, s in enumerate(row)]


@st.composite
def similarity_rows(draw: st.DrawFn) -> tuple[list[list[float]], list[int]]:
    """Some rows of similarities, sparse and full of ties in some cases, and whose rows they are."""
    count = draw(st.integers(2, 40))
    value = draw(
        st.sampled_from(
            [
                st.sampled_from([0.0, 0.0, 0.0, 0.25, 1.0]),
                st.just(0.0),
                st.just(0.5),
                st.floats(0, 1, width=32, allow_subnormal=False),
            ]
        )
    )
    nodes = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3))
    row = st.lists(value, min_size=count, max_size=count)
    return [draw(row) for _ in nodes], nodes


several = st.lists(st.sampled_from(QUANTILES), min_size=1, max_size=4, unique=True).map(sorted)


@given(similarity_rows(), several)
def test_levels_equal_the_exact_quantile(
    case: tuple[list[list[float]], list[int]], quantiles: list[float]
) -> None:
    rows, nodes = case
    reached = levels(torch.tensor(rows), torch.tensor(nodes), quantiles)
    assert reached.dtype == torch.uint8
    expected = [expected_levels(row, u, quantiles) for row, u in zip(rows, nodes, strict=True)]
    assert reached.tolist() == expected


@pytest.mark.parametrize("quantile", [0.25, 0.5, 0.875, 0.99])
@pytest.mark.parametrize("count", [2, 3, 17, 90])
@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.97])
def test_the_above_set_is_that_of_numpy(quantile: float, count: int, zeros: float) -> None:
    rng = np.random.default_rng(count)
    rows = np.round(rng.random((count, count)), 2) * (rng.random((count, count)) >= zeros)
    rows = rows.astype(np.float32)
    reached = levels(torch.from_numpy(rows), torch.arange(count), [quantile]).numpy()
    for u in range(count):
        others = np.delete(rows[u], u).astype(np.float64)
        eta = np.quantile(others, quantile, method="linear")
        above = np.insert((others >= eta) & (others > 0), u, False)
        np.testing.assert_array_equal(reached[u] > 0, above)


@given(similarity_rows(), several)
def test_a_threshold_is_the_smallest_value_not_under_the_quantile(
    case: tuple[list[list[float]], list[int]], quantiles: list[float]
) -> None:
    rows, nodes = case
    found = thresholds(torch.tensor(rows), torch.tensor(nodes), quantiles).tolist()
    for row, u, eta in zip(rows, nodes, found, strict=True):
        others = [s for v, s in enumerate(row) if v != u]
        for q, value in zip(quantiles, eta, strict=True):
            assert value == min(s for s in others if s >= exact_quantile(others, q))


@given(st.integers(1, 5000), st.integers(0, 999))
@example(count=21, thousandths=550)
def test_rank_from_top_is_exact(count: int, thousandths: int) -> None:
    """0.55 * 20 is 11.000000000000002 in floating point; the rank must not jump for that."""
    place = Fraction(thousandths, 1000) * (count - 1)
    assert rank_from_top(thousandths / 1000, count) == count - math.ceil(place)


def test_the_similarities_are_left_as_they_are() -> None:
    rows = torch.rand(3, 8, generator=torch.Generator().manual_seed(0))
    before = rows.clone()
    levels(rows, torch.tensor([1, 1, 7]), [0.5, 0.9])
    assert torch.equal(rows, before)


def test_a_node_does_not_count_for_its_own_threshold() -> None:
    row = torch.tensor([[0.9, 0.2, 0.1, 0.0]])
    assert levels(row, torch.tensor([0]), [0.99]).tolist() == [[0, 1, 0, 0]]


@pytest.mark.parametrize(
    "quantiles",
    [(), (1.0,), (-0.1,), (0.9, 0.5), (0.5, 0.5), (math.nan,), (math.inf,), np.arange(256) / 300],
)
def test_bad_quantiles_are_refused(quantiles: Sequence[float]) -> None:
    with pytest.raises(UsageError, match=r"quantiles=.*\.$"):
        check_quantiles(quantiles)


def test_good_quantiles_come_back_as_a_tuple_of_floats() -> None:
    assert check_quantiles([0, 0.5, 0.99]) == (0.0, 0.5, 0.99)
    assert len(check_quantiles(list(np.arange(255) / 300))) == 255


def test_255_quantiles_do_not_overflow_the_level() -> None:
    quantiles = check_quantiles(list(np.arange(255) / 300))
    row = torch.tensor([[0.0, 1.0, 0.5]])
    assert levels(row, torch.tensor([0]), quantiles).max() == 255


# The n-th largest of a row is what sorting the row says.

WIDTH = 3000


def rows_of(kind: str) -> Tensor:
    rng = np.random.default_rng(0)
    dense = rng.random((21, WIDTH), dtype=np.float32)
    rows = {
        "dense": dense,
        "sparse": np.where(dense > 0.997, dense, 0.0),
        "steps": np.round(12 * dense) / 12,
        "all one": np.ones_like(dense),
        "nothing": np.zeros_like(dense),
        "in order": np.sort(dense, axis=1),
        # All that is large lies where no sample looks.
        "hidden": np.where(np.arange(WIDTH) % 256 < 16, 0.1 * dense, dense),
        "seen": np.where(np.arange(WIDTH) % 256 < 16, dense, 0.1 * dense),
    }
    rows["mixed"] = np.concatenate([part[3:8] for part in rows.values()])
    rows["some are no partner"] = np.where(dense > 0.5, dense, -1.0)
    return torch.from_numpy(rows[kind].astype(np.float32))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rank", [1, 2, 30, 200, 2999, 3000])
@pytest.mark.parametrize(
    "kind",
    [
        "dense",
        "sparse",
        "steps",
        "all one",
        "nothing",
        "in order",
        "hidden",
        "seen",
        "mixed",
        "some are no partner",
    ],
)
def test_is_that_of_the_sorted_row(
    kind: str, rank: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONG_ROW", 1000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    rows = rows_of(kind)
    expected = np.sort(rows.numpy(), axis=1)[:, -rank, None]
    assert np.array_equal(nth_largest(rows, rank).numpy(), expected)


def test_only_rows_that_a_sample_does_not_serve_go_to_the_heap_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LONG_ROW", 1000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    by_heap, shapes = module._by_heap, []

    def watched(rows: Tensor, rank: int) -> Tensor:
        shapes.append(tuple(rows.shape))
        return by_heap(rows, rank)

    monkeypatch.setattr(module, "_by_heap", watched)
    rows = rows_of("dense")
    rows[:4] = 0.0
    nth_largest(rows, 30)
    heights = [height for height, width in shapes if width == WIDTH]
    assert sum(heights) < 4 + 4
    assert max(width for height, width in shapes if height == 17) < WIDTH // 8


def test_one_row_and_a_short_row() -> None:
    assert nth_largest(torch.tensor([[0.3, 0.9, 0.5]]), 2).tolist() == [[0.5]]
    wide = torch.arange(10_000.0)[None]
    assert nth_largest(wide, 100).tolist() == [[9900.0]]


@given(similarity_rows(), several, st.booleans(), st.booleans())
def test_switches_are_those_of_the_rule(
    drawn: tuple[list[list[float]], list[int]],
    quantiles: list[float],
    positive_only: bool,
    self_pairs: bool,
) -> None:
    """s >= eta with or without s > 0, over whole rows or without each node itself."""
    rows, nodes = drawn
    found = levels(
        torch.tensor(rows), torch.tensor(nodes), quantiles, AboveRule(positive_only, self_pairs)
    )
    for row, u, level in zip(rows, nodes, found.tolist(), strict=True):
        counted = [s for v, s in enumerate(row) if v != u or self_pairs]
        eta = [exact_quantile(counted, q) for q in quantiles]
        expected = [sum(s >= e and (s > 0 or not positive_only) for e in eta) for s in row]
        assert level == [
            0 if v == u and not self_pairs else reached for v, reached in enumerate(expected)
        ]
