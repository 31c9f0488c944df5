"""The solver of the logistic head, against formulas written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from xtcl.errors import DataError
from xtcl.tasks import newton_cg
from xtcl.tasks import newton_cg as module
from xtcl.tasks.newton_cg import (
    ConjugateGradient,
    Design,
    HeadWeights,
    QuadraticModel,
    class_contrasts,
    rotate_rows,
    solve_path,
)

PATH_OF_C = [0.3, 30.0, 3000.0]


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
        path = solve_path(rows, codes, CLASSES, PATH_OF_C, tolerance, kept)
        for C, fit in zip(PATH_OF_C, path, strict=True):
            assert fit.coef.shape == (4, CLASSES, 12)
            assert fit.intercept.shape == (4, CLASSES)
            for p, mask in enumerate(kept):
                grad = gradient(rows[mask], codes[mask], fit.coef[p], fit.intercept[p], C)
                # |W - W*| <= C |gradient|
                assert C * grad.norm() <= 1.01 * tolerance * fit.coef[p].norm()


@pytest.mark.parametrize("problems", [1, 5])
def test_problems_at_once_are_problems_alone_with_the_other_rows_left_out(problems: int) -> None:
    rows, codes = data()
    kept = folds(60, problems)
    together = list(solve_path(rows, codes, CLASSES, PATH_OF_C, 1e-10, kept))
    for p, mask in enumerate(kept):
        masked = solve_path(rows, codes, CLASSES, PATH_OF_C, 1e-10, mask[None])
        without = solve_path(rows[mask], codes[mask], CLASSES, PATH_OF_C, 1e-10)
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
    start = HeadWeights(
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
    # J is the same for rows scale x, weights W / scale and C / scale^2.
    (found,) = solve_path(scale * rows, codes, CLASSES, [3.0 / scale**2], 1e-10)
    torch.testing.assert_close(scale * found.coef, usual.coef, rtol=1e-7, atol=1e-8)


def test_a_search_that_single_precision_cannot_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = torch.Generator().manual_seed(250)
    codes = torch.arange(200) % CLASSES
    centres, spread = (torch.randn(n, 50, generator=noise).double() for n in (CLASSES, 200))
    rows = (3 * centres[codes] + spread) * torch.logspace(0, -4, 50).double()
    rows = rows / rows.norm(dim=1, keepdim=True)  # separable
    tried = []
    search = newton_cg._newton

    def recorded(problems: Any, start: Tensor, c: str, tolerance: float, float32: bool) -> Tensor:
        tried.append(float32)
        return search(problems, start, c, tolerance, float32)

    monkeypatch.setattr(newton_cg, "_newton", recorded)
    (fit,) = solve_path(rows, codes, CLASSES, [1e7], 1e-9)
    assert tried == [True, False]
    grad = gradient(rows, codes, fit.coef[0], fit.intercept[0], 1e7)
    assert 1e7 * grad.norm() <= 1e-6 * fit.coef.norm()


def test_all_c_values_at_once_are_the_c_values_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, codes = data()
    kept = folds(60, 3)
    in_turn = list(solve_path(rows, codes, CLASSES, PATH_OF_C, 1e-10, kept))
    monkeypatch.setattr(newton_cg, "_solve_in_turn", newton_cg._solve_all_at_once)  # as a GPU does
    at_once = list(solve_path(rows, codes, CLASSES, PATH_OF_C, 1e-10, kept))
    assert len(at_once) == len(PATH_OF_C)
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


# The minimum of a quadratic model, against the whole Hessian written out.

PROBLEMS, CLASSES_PARABOLA, ROWS, COLUMNS = 2, 3, 20, 5


RIDGE = torch.tensor([0.1] * COLUMNS + [0.0], dtype=torch.float64)


DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    ),
]


def quadratic_model(seed: int = 0) -> QuadraticModel:
    """Around random chances; the second problem leaves the first rows out."""
    noise = torch.Generator().manual_seed(seed)
    rows = torch.randn(
        ROWS, COLUMNS, dtype=torch.float64, generator=torch.Generator().manual_seed(9)
    )
    kept = torch.ones(PROBLEMS, 1, ROWS, dtype=torch.float64)
    kept[1, :, :7] = 0
    scores = torch.randn(PROBLEMS, CLASSES_PARABOLA, ROWS, dtype=torch.float64, generator=noise)
    spectrum = torch.cat([kept @ rows.square(), kept.sum(dim=2, keepdim=True)], dim=2)
    design = Design(rows, class_contrasts(CLASSES_PARABOLA, rows))
    chances = scores.softmax(dim=1) * kept
    return QuadraticModel.around(design, RIDGE, chances, spectrum, kept.sum(dim=(1, 2)))


def some_weights(seed: int = 1) -> Tensor:
    noise = torch.Generator().manual_seed(seed)
    return torch.randn(
        PROBLEMS, CLASSES_PARABOLA - 1, COLUMNS + 1, dtype=torch.float64, generator=noise
    )


def hessian(model: QuadraticModel, problem: int) -> Tensor:
    """Of one problem, [(K - 1)(d + 1)] squared, row of data by row of data."""
    contrasts = model.design.contrasts
    whole = torch.diag(RIDGE.repeat(CLASSES_PARABOLA - 1))
    for place, row in enumerate(model.design.rows):
        p = model.probability[problem, :, place]
        among_classes = contrasts.T @ (torch.diag(p) - torch.outer(p, p)) @ contrasts
        extended = torch.cat([row, row.new_ones(1)])
        whole += torch.kron(among_classes, torch.outer(extended, extended))
    return whole


def to(model: QuadraticModel, device: str) -> QuadraticModel:
    design = Design(*(part.to(device) for part in model.design))
    return QuadraticModel(design, *(part.to(device) for part in model[1:]))


def test_curvature_is_the_hessian() -> None:
    model = quadratic_model()
    v = some_weights()
    for problem in range(PROBLEMS):
        expected = hessian(model, problem) @ v[problem].flatten()
        torch.testing.assert_close(model.hessian_product(v)[problem].flatten(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_searches_of_one_design_find_the_minimum_of_each_quadratic_model(device: str) -> None:
    minimise = ConjugateGradient()
    for seed in range(3):
        model = quadratic_model(seed)
        right = some_weights(seed)
        fine = torch.full((PROBLEMS,), 1e-12, dtype=torch.float64)
        found = minimise(to(model, device), right.to(device), fine.to(device)).cpu()
        for problem in range(PROBLEMS):
            expected = torch.linalg.solve(hessian(model, problem), right[problem].flatten())
            torch.testing.assert_close(found[problem].flatten(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_fine_already_stands_still_while_others_go_on(device: str) -> None:
    model = quadratic_model()
    right = some_weights()
    forcing = torch.tensor([1.0, 1e-12], dtype=torch.float64)
    found = ConjugateGradient()(to(model, device), right.to(device), forcing.to(device)).cpu()
    assert not found[0].any()
    expected = torch.linalg.solve(hessian(model, 1), right[1].flatten())
    torch.testing.assert_close(found[1].flatten(), expected)


def test_a_coarse_search_ends_as_soon_as_its_residual_is_small_enough() -> None:
    model = quadratic_model()
    right = some_weights()

    def size(v: Tensor) -> Tensor:
        return (v * model.precondition(v)).sum(dim=(1, 2)).sqrt()

    left = []
    for share in (0.3, 1e-6):
        forcing = torch.full((PROBLEMS,), share, dtype=torch.float64)
        found = ConjugateGradient()(model, right, forcing)
        left.append(size(right - model.hessian_product(found)) / size(right))
        assert (left[-1] <= share).all()
    assert (left[0] > 1e-4).any()  # no finer than was asked for


# Turning rows changes nothing but the cost of a fit.


def correlated(n: int, d: int) -> Tensor:
    """Rows away from the origin, whose columns differ in size and hang together."""
    noise = torch.Generator().manual_seed(n * d)
    mixed = torch.randn(n, d, dtype=torch.float64, generator=noise) * torch.logspace(0, -2, d)
    turn = torch.randn(d, d, dtype=torch.float64, generator=noise) / d**0.5
    rows: Tensor = mixed @ turn + 3.0
    return rows


@pytest.mark.parametrize(
    ("n", "d", "r"), [(60, 8, 8), (25, 70, 24), (30, 30, 30), (32, 40, 31), (33, 40, 40)]
)
@pytest.mark.parametrize("leading", [5, 256])
def test_it_is_a_rotation(
    n: int, d: int, r: int, leading: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PRINCIPAL_AXES", leading)
    rows = correlated(n, d)
    turned = rotate_rows(rows)
    assert turned.coordinates.shape == (n, r)
    axes = turned.inverse(torch.eye(r, dtype=torch.float64))
    torch.testing.assert_close(axes @ axes.T, torch.eye(r, dtype=torch.float64))
    again = turned.coordinates @ axes + turned.centre
    torch.testing.assert_close(again, rows, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(60, 20), (20, 60)])
def test_the_leading_axes_come_first(n: int, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PRINCIPAL_AXES", 6)
    noise = torch.Generator().manual_seed(0)
    size = 4.0 ** -torch.arange(d, dtype=torch.float64)
    rows = torch.randn(n, d, dtype=torch.float64, generator=noise) * size
    spectrum = torch.linalg.svdvals(rows - rows.mean(dim=0))
    length = rotate_rows(rows).coordinates.norm(dim=0)
    torch.testing.assert_close(
        length[:6].sort(descending=True)[0][:3], spectrum[:3], rtol=1e-6, atol=0
    )
    assert length[6:].max() < 1.1 * spectrum[6]


@pytest.mark.parametrize("rows", [torch.zeros(6, 3), torch.ones(4, 9), torch.eye(7)[[0, 0, 1, 1]]])
def test_rows_of_low_rank_are_kept_whole(rows: Tensor) -> None:
    turned = rotate_rows(rows.double())
    again = turned.inverse(turned.coordinates) + turned.centre
    torch.testing.assert_close(again, rows.double(), rtol=0.0, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d", "few"), [(25, 70, 99), (25, 70, 9), (70, 25, 99)])
def test_a_fit_of_turned_rows_is_a_fit_of_the_rows(
    n: int, d: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SPAN_ROWS", few)
    rows, codes = correlated(n, d), torch.arange(n) % 3
    turned = rotate_rows(rows)
    values_of_c = [0.1, 10.0, 1e4]
    short = solve_path(turned.coordinates, codes, 3, values_of_c, 1e-10)
    long = solve_path(rows, codes, 3, values_of_c, 1e-10)
    for in_axes, expected in zip(short, long, strict=True):
        found = turned.unrotate(in_axes)
        torch.testing.assert_close(found.coef, expected.coef, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(found.intercept, expected.intercept, rtol=1e-6, atol=1e-6)

        again = turned.rotate(found)
        torch.testing.assert_close(again.coef, in_axes.coef)
        torch.testing.assert_close(again.intercept, in_axes.intercept)


@pytest.mark.parametrize(("n", "d"), [(60, 8), (25, 70)])
def test_rows_turned_in_place_and_in_blocks_are_the_same_rows(
    n: int, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = correlated(n, d)
    kept = rows.clone()
    whole = rotate_rows(rows)
    assert torch.equal(rows, kept)
    monkeypatch.setattr(module, "ROTATION_BLOCK", 7 * d)
    parts = rotate_rows(rows, overwrite=True)
    assert torch.equal(rows, parts.coordinates) == (n > d)  # in place, but for a span
    torch.testing.assert_close(parts.coordinates, whole.coordinates, rtol=0.0, atol=1e-12)


def test_the_same_rows_give_the_same_bytes_and_global_state_is_left_alone() -> None:
    rows = correlated(40, 30)
    state = torch.get_rng_state()
    first, again = rotate_rows(rows), rotate_rows(rows)
    assert torch.equal(torch.get_rng_state(), state)
    assert first.coordinates.numpy().tobytes() == again.coordinates.numpy().tobytes()
