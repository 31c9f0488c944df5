"""The lowest point of a parabola, against the whole Hessian written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from xtcl.tasks.newton_cg import ConjugateGradient, Design, QuadraticModel, class_contrasts

PROBLEMS, CLASSES, ROWS, COLUMNS = 2, 3, 20, 5
RIDGE = torch.tensor([0.1] * COLUMNS + [0.0], dtype=torch.float64)
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    ),
]


def parabola(seed: int = 0) -> QuadraticModel:
    """Around random chances; the second problem leaves the first rows out."""
    noise = torch.Generator().manual_seed(seed)
    rows = torch.randn(
        ROWS, COLUMNS, dtype=torch.float64, generator=torch.Generator().manual_seed(9)
    )
    kept = torch.ones(PROBLEMS, 1, ROWS, dtype=torch.float64)
    kept[1, :, :7] = 0
    scores = torch.randn(PROBLEMS, CLASSES, ROWS, dtype=torch.float64, generator=noise)
    spectrum = torch.cat([kept @ rows.square(), kept.sum(dim=2, keepdim=True)], dim=2)
    design = Design(rows, class_contrasts(CLASSES, rows))
    chances = scores.softmax(dim=1) * kept
    return QuadraticModel.around(design, RIDGE, chances, spectrum, kept.sum(dim=(1, 2)))


def some_weights(seed: int = 1) -> Tensor:
    noise = torch.Generator().manual_seed(seed)
    return torch.randn(PROBLEMS, CLASSES - 1, COLUMNS + 1, dtype=torch.float64, generator=noise)


def hessian(model: QuadraticModel, problem: int) -> Tensor:
    """Of one problem, [(K - 1)(d + 1)] squared, row of data by row of data."""
    contrasts = model.design.contrasts
    whole = torch.diag(RIDGE.repeat(CLASSES - 1))
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
    model = parabola()
    v = some_weights()
    for problem in range(PROBLEMS):
        expected = hessian(model, problem) @ v[problem].flatten()
        torch.testing.assert_close(model.hessian_product(v)[problem].flatten(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_searches_of_one_design_find_the_lowest_point_of_each_parabola(device: str) -> None:
    lowest = ConjugateGradient()
    for seed in range(3):
        model = parabola(seed)
        right = some_weights(seed)
        fine = torch.full((PROBLEMS,), 1e-12, dtype=torch.float64)
        found = lowest(to(model, device), right.to(device), fine.to(device)).cpu()
        for problem in range(PROBLEMS):
            expected = torch.linalg.solve(hessian(model, problem), right[problem].flatten())
            torch.testing.assert_close(found[problem].flatten(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_fine_already_stands_still_while_others_go_on(device: str) -> None:
    model = parabola()
    right = some_weights()
    forcing = torch.tensor([1.0, 1e-12], dtype=torch.float64)
    found = ConjugateGradient()(to(model, device), right.to(device), forcing.to(device)).cpu()
    assert not found[0].any()
    expected = torch.linalg.solve(hessian(model, 1), right[1].flatten())
    torch.testing.assert_close(found[1].flatten(), expected)


def test_a_coarse_search_ends_as_soon_as_its_residual_is_small_enough() -> None:
    model = parabola()
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
