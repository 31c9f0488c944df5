"""Multinomial logistic regression solved to convergence, along a path of penalties.

    J(W, b) = sum_i -log softmax(W x_i + b)[y_i] + |W|^2 / (2 C),     b unpenalised

in float64 by Newton steps with preconditioned conjugate gradients. A first-order solver creeps
when C is large, and a fit stopped early looks like a worse embedding. Here the stop bounds the
error itself, because J is 1/C-strongly convex in W: |W - W*| <= C |grad J|. C means what it means
in scikit-learn for three or more classes; two classes get a row each, which is scikit-learn's
binary fit at 2 C.

Steps are found in float32, with half as much to read for every product: a step decides how soon the
search ends, J and its gradient decide where. A search that does not end with them (C = 1e7, and
classes that can be told apart) is begun again in float64.

Problems that share the data but not which rows of it they keep (the folds of a cross-validation)
are solved side by side: one matrix product serves them all. Each has its own steps and stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from xtcl.errors import DataError
from xtcl.tasks.logistic_design import Design, class_contrasts, dot, norm
from xtcl.tasks.parabola import Parabola, ParabolaSearch

NEWTON_STEPS = 200
ROUGH_STEPS = 30  # in float32; up to C = 1e5, searches were seen to end before
STALL = 1e-6  # relative error that is good enough where rounding ends the search
EPS, TINY = torch.finfo(torch.float64).eps, torch.finfo(torch.float64).tiny
TOGETHER = 2**24  # numbers of all strengths' class scores that a GPU may have at once: 128 MiB
COLUMNS = 256  # squared at a time: the squares of all rows would be one copy more of them


class Weights(NamedTuple):
    """Fits of P problems: the class scores are `rows @ coef[p].T + intercept[p]`.

    coef is [P, K, d] and intercept is [P, K].
    """

    coef: Tensor
    intercept: Tensor


class _State(NamedTuple):
    """A point of each search, and J around it.

    The weights are those of the contrasts [P, K - 1, d + 1], with the intercept last.
    """

    weights: Tensor
    value: Tensor
    """[P]"""
    probability: Tensor
    """[P, K, n], 0 for rows that a problem does not keep."""
    gradient: Tensor


class _Problems(NamedTuple):
    """P problems."""

    exact: Design
    rough: Design
    """The same in float32."""
    ridge: Tensor
    """[P, 1, d + 1]: 1 / C, and 0 for the intercept."""
    kept: Tensor
    """[P, 1, n], 0 or 1."""
    target: Tensor
    """[P, K, n], 0 for rows that a problem does not keep."""
    spectrum: Tensor
    """[P, 1, d + 1]: the diagonal of the Gram matrix of [rows, 1]."""
    lowest: ParabolaSearch

    def only(self, which: Tensor) -> _Problems:
        """Some of the problems."""
        return self._replace(
            ridge=self.ridge[which],
            kept=self.kept[which],
            target=self.target[which],
            spectrum=self.spectrum[which],
        )

    def evaluate(self, weights: Tensor) -> _State:
        """J and its gradient."""
        log_chance = self.exact.scores(weights).log_softmax(dim=1)
        probability = log_chance.exp() * self.kept
        gradient = self.exact.back(probability - self.target) + self.ridge * weights
        value = 0.5 * dot(weights, self.ridge * weights) - dot(self.target, log_chance)
        return _State(weights, value, probability, gradient)

    def newton_step(self, state: _State, forcing: Tensor, rough: bool) -> Tensor:
        """The step to the optimum of J's quadratic model, up to `forcing` [P]."""
        design = self.rough if rough else self.exact
        rows_kept = self.kept.sum(dim=(1, 2)).to(design.rows)
        model = Parabola.around(design, self.ridge, state.probability, self.spectrum, rows_kept)
        # At unit length no square of it underflows.
        size = norm(state.gradient).clamp_min(TINY)[:, None, None]
        right = (-state.gradient / size).to(design.rows)
        return size * self.lowest(model, right, forcing.to(design.rows))


def solve_path(
    rows: Tensor,
    codes: Tensor,
    num_classes: int,
    strengths: Sequence[float],
    tolerance: float,
    kept: Tensor | None = None,
    start: Weights | None = None,
) -> Iterator[Weights]:
    """Fit float64 rows [n, d] for each C.

    In turn, each search starting from the last fits, or on a GPU all at once.

    The first starts from `start`, which saves steps where it is near, or else from the shares of
    the classes. Problem p is fitted on the rows that `kept` [P, n] marks; without it there is one
    problem, of all rows. Every class 0..num_classes-1 needs a row in every problem. Rows are best
    given in principal axes (`principal_rows`), where the preconditioner is good. `tolerance` bounds
    the relative error of W. A Hessian product costs 4 n d P (K - 1) operations; memory is the rows
    in float32 and a few P x K x n arrays.
    """
    mask = rows.new_ones(1, len(rows)) if kept is None else kept.to(rows)
    count = mask.sum(dim=1, keepdim=True)
    squares = [mask @ part.square() for part in torch.split(rows, COLUMNS, dim=1)]
    spectrum = torch.cat([*squares, count], dim=1)[:, None]
    target = one_hot(codes, num_classes).T.to(rows) * mask[:, None]
    contrasts = class_contrasts(num_classes, rows)
    if start is None:
        weights = rows.new_zeros(len(mask), num_classes - 1, rows.shape[1] + 1)
        weights[..., -1] = (target.sum(dim=2) / count).log() @ contrasts
    else:
        weights = contrasts.T @ torch.cat([start.coef, start.intercept[..., None]], dim=2)
    exact = Design(rows, contrasts)
    rough = Design(rows.float(), contrasts.float())
    ridge = _ridge(weights, strengths[0])
    problems = _Problems(exact, rough, ridge, mask[:, None], target, spectrum, ParabolaSearch())
    if rows.is_cuda and len(strengths) * target.numel() <= TOGETHER:
        path = _together(problems, weights, strengths, tolerance)
    else:
        path = _in_turn(problems, weights, strengths, tolerance)
    for found in path:
        of_classes = contrasts @ found
        yield Weights(of_classes[..., :-1], of_classes[..., -1])


def _in_turn(
    problems: _Problems, weights: Tensor, strengths: Sequence[float], tolerance: float
) -> Iterator[Tensor]:
    """For each C the weights of all problems, found from those before."""
    fits: list[Tensor] = []
    for strength in strengths:
        # On a geometric grid the next fit lies about as far off again as the last two are apart.
        guess = weights if len(fits) < 2 else 2 * fits[-1] - fits[-2]
        ridge = _ridge(weights, strength)
        weights = _newton(problems._replace(ridge=ridge), guess, f"{strength:g}", tolerance)
        fits = [*fits[-1:], weights]
        yield weights


def _together(
    problems: _Problems, weights: Tensor, strengths: Sequence[float], tolerance: float
) -> Iterator[Tensor]:
    """The same for all C at once: a GPU has room for them, and it is steps that take its time."""
    times = len(strengths)
    kept, target, spectrum = (
        part.repeat(times, 1, 1) for part in (problems.kept, problems.target, problems.spectrum)
    )
    ridge = torch.cat([_ridge(weights, strength) for strength in strengths])
    everyone = problems._replace(ridge=ridge, kept=kept, target=target, spectrum=spectrum)
    names = " or ".join(f"{strength:g}" for strength in strengths)
    found = _newton(everyone, weights.repeat(times, 1, 1), names, tolerance)
    yield from found.chunk(times)


def _ridge(weights: Tensor, strength: float) -> Tensor:
    """The penalty of P problems at one C, [P, 1, d + 1]."""
    ridge = torch.full_like(weights[:, :1], 1.0 / strength)
    ridge[..., -1] = 0.0
    return ridge


def _newton(problems: _Problems, start: Tensor, strength: str, tolerance: float) -> Tensor:
    try:
        return _search(problems, start, strength, tolerance, rough=True)
    except DataError:
        return _search(problems, start, strength, tolerance, rough=False)


def _search(
    problems: _Problems, start: Tensor, strength: str, tolerance: float, rough: bool
) -> Tensor:
    # What rounding leaves of a gradient; a fit with W* = 0 can be judged against nothing else.
    spectrum = problems.spectrum[:, 0]
    floor = 16 * EPS * (spectrum.sum(dim=1) * spectrum[:, -1]).sqrt()
    state = problems.evaluate(start.clone())
    stalled = torch.zeros_like(floor, dtype=torch.bool)
    for _ in range(min(ROUGH_STEPS, NEWTON_STEPS) if rough else NEWTON_STEPS):
        size, penalty = norm(state.gradient), norm(problems.ridge * state.weights)
        # Not the same as `size > ...`: what is not a number has not converged.
        converged = size <= tolerance * penalty + floor
        going = ~(converged | stalled)
        if not going.any():
            return state.weights
        # Rough steps far away, ever finer ones near the optimum (superlinear convergence), but none
        # finer than the tolerance asks for.
        enough = 0.3 * tolerance * penalty / size
        forcing = torch.maximum((size / (size + penalty)).sqrt(), enough).clip(max=0.3)
        # A GPU has time for all, and a recorded step for so many: those that are done stand still.
        forcing = torch.where(going, forcing, 1.0)
        which = (going | going.is_cuda).nonzero()[:, 0]
        everyone = len(which) == len(going)
        part, here = problems, state
        if not everyone:
            part, here = problems.only(which), _State(*(one[which] for one in state))
            forcing = forcing[which]
        trial, better = _line_search(part, here, part.newton_step(here, forcing, rough))
        if everyone and better.all():
            state = trial
            continue
        for whole, moved in zip(state, trial, strict=True):
            whole[which[better]] = moved[better]
        stalled[which[~better]] = True
        # Of a rough step it may be the rounding that ends the search.
        if (stalled & (rough | ~(size <= STALL * penalty))).any():
            break
    worst = float((size / (penalty + floor)).max())
    raise DataError(
        f"The logistic regression at C = {strength} did not converge (relative gradient "
        f"{worst:.1e}). Use smaller strengths, or rescale the embedding."
    )


def _line_search(problems: _Problems, state: _State, step: Tensor) -> tuple[_State, Tensor]:
    """For each problem the first halving of the step that makes progress, and whether it does."""
    slope = dot(state.gradient, step)
    length = torch.ones_like(slope)
    while True:
        trial = problems.evaluate(state.weights + length[:, None, None] * step)
        better = trial.value <= state.value + 1e-4 * length * slope
        # Near the optimum J no longer resolves progress, but its gradient still does.
        close = trial.value <= state.value + 1e-12 * state.value.abs()
        better |= close & (norm(trial.gradient) < norm(state.gradient))
        again = ~better & (length > EPS)
        if not again.any():
            return trial, better
        length = torch.where(again, length / 2, length)
