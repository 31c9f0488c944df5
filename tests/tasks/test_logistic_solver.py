"""Problems solved side by side, against the formula and against each problem alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from xtcl.errors import DataError
from xtcl.tasks import newton_cg
from xtcl.tasks.newton_cg import Weights, solve_path

STRENGTHS = [0.3, 30.0, 3000.0]
CLASSES = 3


def data(n: int = 60, d: int = 12) -> tuple[Tensor, Tensor]:
    """Overlapping classes in columns of unequal size."""
    noise = torch.Generator().manual_seed(0)
    codes = torch.arange(n) % CLASSES
    centres = torch.randn(CLASSES, d, dtype=torch.float64, generator=noise)
    rows = centres[codes] + 1.5 * torch.randn(n, d, dtype=torch.float64, generator=noise)
    return rows * torch.logspace(0, -2, d, dtype=torch.float64), codes


def folds(n: int, problems: int) -> Tensor:
    """All rows but every fourth, fifth, ..."""
    return torch.stack([torch.arange(n) % (4 + p) != 0 for p in range(problems)])


def gradient(rows: Tensor, codes: Tensor, coef: Tensor, intercept: Tensor, c: float) -> Tensor:
    """Of J with respect to W and b, by a loop over the rows."""
    d_coef, d_intercept = coef / c, torch.zeros_like(intercept)
    for x, code in zip(rows, codes, strict=True):
        p = torch.softmax(coef @ x + intercept, dim=0)
        p[code] -= 1.0
        d_coef = d_coef + torch.outer(p, x)
        d_intercept = d_intercept + p
    return torch.cat([d_coef.flatten(), d_intercept])


def test_every_problem_meets_the_promised_error() -> None:
    rows, codes = data()
    kept = folds(60, 4)
    for tolerance in (1e-3, 1e-9):
        path = solve_path(rows, codes, CLASSES, STRENGTHS, tolerance, kept)
        for strength, fit in zip(STRENGTHS, path, strict=True):
            assert fit.coef.shape == (4, CLASSES, 12)
            assert fit.intercept.shape == (4, CLASSES)
            for p, mask in enumerate(kept):
                slope = gradient(rows[mask], codes[mask], fit.coef[p], fit.intercept[p], strength)
                # |W - W*| <= C |gradient|
                assert strength * slope.norm() <= 1.01 * tolerance * fit.coef[p].norm()


@pytest.mark.parametrize("problems", [1, 5])
def test_problems_at_once_are_problems_alone_with_the_other_rows_left_out(problems: int) -> None:
    rows, codes = data()
    kept = folds(60, problems)
    together = list(solve_path(rows, codes, CLASSES, STRENGTHS, 1e-10, kept))
    for p, mask in enumerate(kept):
        masked = solve_path(rows, codes, CLASSES, STRENGTHS, 1e-10, mask[None])
        without = solve_path(rows[mask], codes[mask], CLASSES, STRENGTHS, 1e-10)
        for fit, one, two in zip(together, masked, without, strict=True):
            for found, *alone in zip(fit, one, two, strict=True):
                for expected in alone:
                    torch.testing.assert_close(found[p], expected[0], rtol=1e-7, atol=1e-8)


def test_without_a_mask_there_is_one_problem_of_all_rows() -> None:
    rows, codes = data()
    (plain,) = solve_path(rows, codes, CLASSES, [3.0], 1e-10)
    (masked,) = solve_path(rows, codes, CLASSES, [3.0], 1e-10, torch.ones(1, 60, dtype=torch.bool))
    assert torch.equal(plain.coef, masked.coef)
    assert torch.equal(plain.intercept, masked.intercept)


@pytest.mark.parametrize("away", [0.0, 1e-3, 10.0])
def test_where_the_search_starts_changes_its_length_alone(
    away: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, codes = data()
    kept = folds(60, 2)
    (cold,) = solve_path(rows, codes, CLASSES, [3.0], 1e-10, kept)
    noise = torch.Generator().manual_seed(1)
    start = Weights(
        *(part + away * torch.randn(part.shape, generator=noise).double() for part in cold)
    )
    if away < 1:
        monkeypatch.setattr(newton_cg, "_MAX_NEWTON_STEPS", 6)
        with pytest.raises(DataError, match="did not converge"):
            list(solve_path(rows, codes, CLASSES, [3.0], 1e-10, kept))
    (warm,) = solve_path(rows, codes, CLASSES, [3.0], 1e-10, kept, start)
    torch.testing.assert_close(warm.coef, cold.coef, rtol=1e-7, atol=1e-8)
    # What is common to all classes the softmax ignores.
    common = cold.intercept.mean(dim=1, keepdim=True)
    torch.testing.assert_close(warm.intercept, cold.intercept - common, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_steps_in_single_precision_find_fits_of_any_size(scale: float) -> None:
    rows, codes = data()
    (usual,) = solve_path(rows, codes, CLASSES, [3.0], 1e-10)
    # J is the same for rows scale x, weights W / scale and the strength C / scale^2.
    (found,) = solve_path(scale * rows, codes, CLASSES, [3.0 / scale**2], 1e-10)
    torch.testing.assert_close(scale * found.coef, usual.coef, rtol=1e-7, atol=1e-8)


def test_a_search_that_single_precision_cannot_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = torch.Generator().manual_seed(250)
    codes = torch.arange(200) % CLASSES
    centres, spread = (torch.randn(n, 50, generator=noise).double() for n in (CLASSES, 200))
    rows = (3 * centres[codes] + spread) * torch.logspace(0, -4, 50).double()
    rows = rows / rows.norm(dim=1, keepdim=True)  # told apart without a mistake
    tried = []
    search = newton_cg._newton

    def recorded(problems: Any, start: Tensor, c: str, tolerance: float, float32: bool) -> Tensor:
        tried.append(float32)
        return search(problems, start, c, tolerance, float32)

    monkeypatch.setattr(newton_cg, "_newton", recorded)
    (fit,) = solve_path(rows, codes, CLASSES, [1e7], 1e-9)
    assert tried == [True, False]
    slope = gradient(rows, codes, fit.coef[0], fit.intercept[0], 1e7)
    assert 1e7 * slope.norm() <= 1e-6 * fit.coef.norm()


def test_all_c_values_at_once_are_the_c_values_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, codes = data()
    kept = folds(60, 3)
    in_turn = list(solve_path(rows, codes, CLASSES, STRENGTHS, 1e-10, kept))
    monkeypatch.setattr(newton_cg, "_solve_in_turn", newton_cg._solve_all_at_once)  # as a GPU does
    at_once = list(solve_path(rows, codes, CLASSES, STRENGTHS, 1e-10, kept))
    assert len(at_once) == len(STRENGTHS)
    for found, expected in zip(at_once, in_turn, strict=True):
        torch.testing.assert_close(found.coef, expected.coef, rtol=1e-7, atol=1e-8)
        torch.testing.assert_close(found.intercept, expected.intercept, rtol=1e-7, atol=1e-8)


def test_what_a_problem_leaves_out_does_not_reach_it() -> None:
    rows, codes = data()
    kept = folds(60, 2)
    (before,) = solve_path(rows, codes, CLASSES, [30.0], 1e-9, kept)
    other, swapped = rows.clone(), codes.clone()
    other[~kept[0]] *= -7.0
    swapped[~kept[0]] = 0
    (after,) = solve_path(other, swapped, CLASSES, [30.0], 1e-9, kept)
    torch.testing.assert_close(after.coef[0], before.coef[0], rtol=1e-6, atol=1e-8)
    assert not torch.allclose(after.coef[1], before.coef[1], rtol=0.1)


def test_a_problem_that_is_done_early_is_not_disturbed_by_the_others() -> None:
    # Three rows at the origin are solved before the first step; the other problem needs many.
    rows, codes = data()
    rows = torch.cat([torch.zeros(6, 12, dtype=torch.float64), rows])
    codes = torch.cat([torch.tensor([0, 0, 0, 1, 1, 2]), codes])
    easy = torch.arange(66) < 6
    (fit,) = solve_path(rows, codes, CLASSES, [1000.0], 1e-10, torch.stack([easy, ~easy]))
    assert not fit.coef[0].any()
    shares = torch.tensor([3, 2, 1], dtype=torch.float64) / 6
    torch.testing.assert_close(fit.intercept[0].softmax(dim=0), shares)
    (hard,) = solve_path(rows[6:], codes[6:], CLASSES, [1000.0], 1e-10)
    torch.testing.assert_close(fit.coef[1], hard.coef[0], rtol=1e-7, atol=1e-8)


def test_one_problem_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, codes = data()
    rows = torch.cat([torch.zeros(3, 12, dtype=torch.float64), rows])
    codes = torch.cat([torch.arange(3), codes])
    easy = torch.arange(63) < 3
    monkeypatch.setattr(newton_cg, "_MAX_NEWTON_STEPS", 1)
    list(solve_path(rows, codes, CLASSES, [100.0], 1e-9, easy[None]))
    with pytest.raises(DataError, match=r"at C = 100 did not converge \(relative gradient \d"):
        list(solve_path(rows, codes, CLASSES, [100.0], 1e-9, torch.stack([easy, ~easy])))


def test_a_problem_without_a_row_of_some_class_is_an_error_and_not_a_number() -> None:
    rows, codes = data()
    kept = torch.stack([codes >= 0, codes > 0])
    with pytest.raises(DataError, match="did not converge"):
        list(solve_path(rows, codes, CLASSES, [3.0], 1e-9, kept))
