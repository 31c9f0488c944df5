"""Turning rows changes nothing but the cost of a fit."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from xtcl.tasks import newton_cg as module
from xtcl.tasks.newton_cg import rotate_rows, solve_path


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


@pytest.mark.parametrize(("n", "d", "few"), [(25, 70, 99), (25, 70, 9), (70, 25, 99)])
def test_a_fit_of_turned_rows_is_a_fit_of_the_rows(
    n: int, d: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SPAN_ROWS", few)
    rows, codes = correlated(n, d), torch.arange(n) % 3
    turned = rotate_rows(rows)
    strengths = [0.1, 10.0, 1e4]
    short = solve_path(turned.coordinates, codes, 3, strengths, 1e-10)
    long = solve_path(rows, codes, 3, strengths, 1e-10)
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
