"""Rows turned so that their leading principal axes come first: the same fit, sooner."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from xtcl.tasks.logistic_solver import Weights

LEADING = 256  # more of them save no further steps of the solver
ROUNDS = 2
WIDE = 1.25  # columns per row from which it pays to find the span of the rows first,
FEW = 1500  # while these are few: of many, the span costs more than it saves
BLOCK = 2**22  # numbers in a block of rows to turn, which are there twice: 32 MiB


class _Turn(NamedTuple):
    """An orthonormal basis of all r directions, as the reflections whose product it is."""

    reflectors: Tensor
    scales: Tensor

    def forward_(self, rows: Tensor) -> Tensor:
        """The coordinates [n, r] of `rows` [n, r] in this basis, in place. Cost O(n r LEADING)."""
        for part in torch.split(rows, max(1, BLOCK // max(1, rows.shape[1]))):
            part.copy_(torch.ormqr(self.reflectors, self.scales, part, left=False))
        return rows

    def back(self, coordinates: Tensor) -> Tensor:
        """The rows that have these coordinates."""
        return torch.ormqr(self.reflectors, self.scales, coordinates, left=False, transpose=True)


class PrincipalRows(NamedTuple):
    """`rows = back(coordinates) + centre`, with coordinates [n, r] where r is d or n - 1."""

    coordinates: Tensor
    centre: Tensor
    turn: _Turn
    span: Tensor | None
    """Orthonormal directions [d, r] that hold the centred rows; None: all of them."""

    def back(self, coordinates: Tensor) -> Tensor:
        """What has these coordinates [n, r], less the centre."""
        inside = self.turn.back(coordinates)
        return inside if self.span is None else inside @ self.span.T

    def rotate(self, weights: Weights) -> Weights:
        """Fits of the rows themselves, as fits of the coordinates."""
        inside = weights.coef if self.span is None else weights.coef @ self.span
        coef = torch.stack([self.turn.forward_(each.clone()) for each in inside])
        return Weights(coef, weights.intercept + weights.coef @ self.centre)

    def unrotate(self, weights: Weights) -> Weights:
        """Fits of the coordinates, as fits of the rows themselves."""
        coef = torch.stack([self.back(each) for each in weights.coef])
        return Weights(coef, weights.intercept - coef @ self.centre)


def principal_rows(rows: Tensor, *, overwrite: bool = False) -> PrincipalRows:
    """Turn float64 rows [n, d], n > 1, in place where they may be overwritten.

    Memory a copy of the rows otherwise, and another two to find their span where they are few.

    Nothing is approximated: an L2-penalised W lies in the span of the centred rows, the centre
    moves into the unpenalised intercept, and any rotation is exact. Only the first LEADING axes are
    principal, and only nearly. Their spread is what slows a solver down; all of them would be many
    times as dear as the fit itself. Cost O(n d LEADING), and O(n^2 d) for a span.
    """
    n, d = rows.shape
    centre = rows.mean(dim=0)
    centred = rows.sub_(centre) if overwrite else rows - centre
    if d < WIDE * n or n > FEW:
        turn = _leading_first(centred)
        return PrincipalRows(turn.forward_(centred), centre, turn, None)
    # Centred rows sum to zero: the last is made of the others, and adds nothing to their span.
    span, others = torch.linalg.qr(centred[:-1].T)
    inside = torch.cat([others.T, -others.sum(dim=1)[None]])
    turn = _leading_first(inside)
    return PrincipalRows(turn.forward_(inside), centre, turn, span)


def _leading_first(rows: Tensor) -> _Turn:
    """A basis that starts with the leading axes of the rows.

    They come from subspace iteration (Halko, Martinsson and Tropp, 2011) with a fixed seed.
    """
    d = rows.shape[1]
    noise = torch.Generator(rows.device).manual_seed(0)
    basis = torch.randn(d, min(LEADING, d), generator=noise, dtype=rows.dtype, device=rows.device)
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(rows.T @ (rows @ basis)).Q
    image = rows @ basis
    leading = basis @ torch.linalg.eigh(image.T @ image).eigenvectors
    return _Turn(*torch.geqrf(leading))
