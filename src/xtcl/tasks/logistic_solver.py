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

The softmax ignores what is common to all classes, so W is sought where it sums to zero over them:
K classes are K - 1 orthonormal contrasts, and all products are with K - 1 rows of weights.

Problems that share the data but not which rows of it they keep (the folds of a cross-validation)
are solved side by side: one matrix product serves them all. Each has its own steps and stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from xtcl.errors import DataError

NEWTON_STEPS = 200
ROUGH_STEPS = 30  # in float32; up to C = 1e5, searches were seen to end before
CG_STEPS = 1000
STALL = 1e-6  # relative error that is good enough where rounding ends the search
EPS = torch.finfo(torch.float64).eps
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


class _Design(NamedTuple):
    """The rows, between weights of contrasts [P, K - 1, d + 1] and scores of classes [P, K, n].

    Weights lie row by row: so both products read the data as they lie, and are two to three times
    as fast as with a column for each class.
    """

    rows: Tensor
    contrasts: Tensor
    """[K, K - 1], orthonormal columns that sum to zero."""

    def scores(self, weights: Tensor) -> Tensor:
        """Of every row, by these weights."""
        scores = _product(weights[..., :-1], self.rows.T) + weights[..., -1:]
        return self.contrasts @ scores

    def back(self, scores: Tensor) -> Tensor:
        """The weights' slope where this is the scores'."""
        contrasted = self.contrasts.T @ scores
        back = _product(contrasted, self.rows)
        return torch.cat([back, contrasted.sum(dim=2, keepdim=True)], dim=2)


class _Problems(NamedTuple):
    """P problems at one strength."""

    exact: _Design
    rough: _Design
    """The same in float32."""
    ridge: Tensor
    """[d + 1]: 1 / C, and 0 for the intercept."""
    kept: Tensor
    """[P, 1, n], 0 or 1."""
    target: Tensor
    """[P, K, n], 0 for rows that a problem does not keep."""
    spectrum: Tensor
    """[P, 1, d + 1]: the diagonal of the Gram matrix of [rows, 1]."""

    def only(self, which: Tensor) -> _Problems:
        """Some of the problems."""
        parts = (part[which] for part in (self.kept, self.target, self.spectrum))
        return _Problems(self.exact, self.rough, self.ridge, *parts)

    def evaluate(self, weights: Tensor) -> _State:
        """J and its gradient."""
        log_chance = self.exact.scores(weights).log_softmax(dim=1)
        probability = log_chance.exp() * self.kept
        gradient = self.exact.back(probability - self.target) + self.ridge * weights
        value = 0.5 * _dot(weights, self.ridge * weights) - _dot(self.target, log_chance)
        return _State(weights, value, probability, gradient)

    def newton_step(self, state: _State, forcing: Tensor, rough: bool) -> Tensor:
        """The step to the optimum of J's quadratic model, up to `forcing` [P]."""
        design = self.rough if rough else self.exact
        precision = design.rows.dtype
        p, ridge = state.probability.to(precision), self.ridge.to(precision)

        def hessian(v: Tensor) -> Tensor:
            scores = design.scores(v) * p
            curved = scores.addcmul_(p, scores.sum(dim=1, keepdim=True), value=-1)
            return design.back(curved).addcmul_(ridge, v)

        # In principal axes the Gram matrix is diagonal. With the mean over the rows of how classes
        # covary it nears the Hessian, which the eigenvectors of that mean then make diagonal too.
        covariance = torch.diag_embed(p.sum(dim=2)) - p @ p.mT
        contrasted = design.contrasts.T @ covariance @ design.contrasts
        mean = contrasted / self.kept.sum(dim=2, keepdim=True)
        # So small a matrix is nothing to a CPU, and many short steps to a GPU.
        spread, turn = (part.to(p) for part in torch.linalg.eigh(mean.cpu()))
        least = torch.finfo(precision).eps
        scale = 1.0 / (self.spectrum.to(precision) * spread.clip(least)[:, :, None] + ridge)

        def precondition(v: Tensor) -> Tensor:
            near: Tensor = turn @ (scale * (turn.mT @ v))
            return near

        size = _norm(state.gradient)[:, None, None]  # at unit length no square of it underflows
        right = (-state.gradient / size).to(precision)
        return size * _conjugate_gradients(hessian, right, precondition, forcing.to(precision))


def solve_path(
    rows: Tensor,
    codes: Tensor,
    num_classes: int,
    strengths: Sequence[float],
    tolerance: float,
    kept: Tensor | None = None,
    start: Weights | None = None,
) -> Iterator[Weights]:
    """Fit float64 rows [n, d] for each C in turn, each search starting from the last fits.

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
    identity = torch.eye(num_classes).to(rows)
    contrasts = torch.linalg.qr(identity[:, 1:] - identity[:, :1]).Q
    if start is None:
        weights = rows.new_zeros(len(mask), num_classes - 1, rows.shape[1] + 1)
        weights[..., -1] = (target.sum(dim=2) / count).log() @ contrasts
    else:
        weights = contrasts.T @ torch.cat([start.coef, start.intercept[..., None]], dim=2)
    exact = _Design(rows, contrasts)
    rough = _Design(rows.float(), contrasts.float())
    fits: list[Tensor] = []
    for strength in strengths:
        ridge = rows.new_full((rows.shape[1] + 1,), 1.0 / strength)
        ridge[-1] = 0.0
        problems = _Problems(exact, rough, ridge, mask[:, None], target, spectrum)
        # On a geometric grid the next fit lies about as far off again as the last two are apart.
        guess = weights if len(fits) < 2 else 2 * fits[-1] - fits[-2]
        weights = _newton(problems, guess, strength, tolerance)
        fits = [*fits[-1:], weights]
        of_classes = contrasts @ weights
        yield Weights(of_classes[..., :-1], of_classes[..., -1])


def _newton(problems: _Problems, start: Tensor, strength: float, tolerance: float) -> Tensor:
    try:
        return _search(problems, start, strength, tolerance, rough=True)
    except DataError:
        return _search(problems, start, strength, tolerance, rough=False)


def _search(
    problems: _Problems, start: Tensor, strength: float, tolerance: float, rough: bool
) -> Tensor:
    # What rounding leaves of a gradient; a fit with W* = 0 can be judged against nothing else.
    spectrum = problems.spectrum[:, 0]
    floor = 16 * EPS * (spectrum.sum(dim=1) * spectrum[:, -1]).sqrt()
    state = problems.evaluate(start.clone())
    stalled = torch.zeros_like(floor, dtype=torch.bool)
    for _ in range(min(ROUGH_STEPS, NEWTON_STEPS) if rough else NEWTON_STEPS):
        size, penalty = _norm(state.gradient), _norm(problems.ridge * state.weights)
        # Not the same as `size > ...`: what is not a number has not converged.
        converged = size <= tolerance * penalty + floor
        which = (~converged & ~stalled).nonzero()[:, 0]
        if not len(which):
            return state.weights
        # Rough steps far away, ever finer ones near the optimum (superlinear convergence), but none
        # finer than the tolerance asks for.
        enough = 0.3 * tolerance * penalty / size
        forcing = torch.maximum((size / (size + penalty)).sqrt(), enough).clip(max=0.3)
        everyone = len(which) == len(stalled)
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
        f"The logistic regression at C = {strength:g} did not converge (relative gradient "
        f"{worst:.1e}). Use smaller strengths, or rescale the embedding."
    )


def _line_search(problems: _Problems, state: _State, step: Tensor) -> tuple[_State, Tensor]:
    """For each problem the first halving of the step that makes progress, and whether it does."""
    slope = _dot(state.gradient, step)
    length = torch.ones_like(slope)
    while True:
        trial = problems.evaluate(state.weights + length[:, None, None] * step)
        better = trial.value <= state.value + 1e-4 * length * slope
        # Near the optimum J no longer resolves progress, but its gradient still does.
        close = trial.value <= state.value + 1e-12 * state.value.abs()
        better |= close & (_norm(trial.gradient) < _norm(state.gradient))
        again = ~better & (length > EPS)
        if not again.any():
            return trial, better
        length = torch.where(again, length / 2, length)


def _conjugate_gradients(
    product: Callable[[Tensor], Tensor],
    right: Tensor,
    precondition: Callable[[Tensor], Tensor],
    forcing: Tensor,
) -> Tensor:
    """Solve `product(x) = right` until the preconditioned residual has shrunk by `forcing` [P].

    A problem that is done stands still while others go on.
    """
    x = torch.zeros_like(right)
    residual = right.clone()
    scaled = precondition(residual)
    direction = scaled
    size = _dot(residual, scaled)
    enough, still = forcing**2 * size, torch.zeros_like(size)
    going = size > 0
    for _ in range(CG_STEPS):
        image = product(direction)
        pace = torch.where(going, size / _dot(direction, image), still)[:, None, None]
        x.addcmul_(pace, direction)
        residual.addcmul_(pace, image, value=-1)
        scaled = precondition(residual)
        last, size = size, _dot(residual, scaled)
        going &= size > enough
        if not going.any():
            break
        turn = torch.where(going, size / last, still)[:, None, None]
        direction = torch.addcmul(scaled, turn, direction)
    return x


def _product(stack: Tensor, matrix: Tensor) -> Tensor:
    """`stack @ matrix` as one product.

    On a CPU, of a multiple of four rows: 10 or 15 took half as long again as 12 or 16.
    """
    flat = stack.flatten(0, 1)
    if not stack.is_cuda and len(flat) % 4:
        flat = pad(flat, (0, 0, 0, -len(flat) % 4))
    return (flat @ matrix)[: stack[..., 0].numel()].view(*stack.shape[:2], -1)


def _dot(left: Tensor, right: Tensor) -> Tensor:
    """One inner product for each problem."""
    return (left * right).flatten(1).sum(dim=1)


def _norm(vectors: Tensor) -> Tensor:
    return _dot(vectors, vectors).sqrt()
