"""Multinomial logistic regression solved to convergence, along a path of penalties.

    J(W, b) = sum_i -log softmax(x_i W + b)[y_i] + |W|^2 / (2 C),     b unpenalised

in float64 by Newton steps with preconditioned conjugate gradients. A first-order solver creeps
when C is large, and a fit stopped early looks like a worse embedding. Here the stop bounds the
error itself, because J is 1/C-strongly convex in W: |W - W*| <= C |grad J|. C means what it means
in scikit-learn for three or more classes; two classes get a column each, which is scikit-learn's
binary fit at 2 C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xtcl.errors import DataError

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

NEWTON_STEPS = 200
CG_STEPS = 1000
STALL = 1e-6  # relative error that is good enough where rounding ends the search
BLOCK = 2**16  # numbers in a block of rows: 512 KiB
EPS = float(np.finfo(np.float64).eps)


class Weights(NamedTuple):
    """A fit: the class scores are `rows @ coef + intercept`, with coef [d, K] and intercept [K]."""

    coef: Floats
    intercept: Floats


class _State(NamedTuple):
    """A point of the search, `weights` [d + 1, K] with the intercept last, and J around it."""

    weights: Floats
    value: float
    probability: Floats
    gradient: Floats


def solve_path(
    rows: Floats, codes: Codes, num_classes: int, strengths: Sequence[float], tolerance: float
) -> Iterator[Weights]:
    """Fit rows [n, d] for each C in turn, each search starting from the last fit.

    Rows are best given in principal axes (`principal_rows`), where the preconditioner is good.
    Every class 0..num_classes-1 needs a row. `tolerance` bounds the relative error of W. A Hessian
    product costs 4 n d K operations; memory is a few n x K arrays beside the rows.
    """
    target = np.zeros((len(rows), num_classes))
    target[np.arange(len(rows)), codes] = 1.0
    weights = np.zeros((rows.shape[1] + 1, num_classes))
    weights[-1] = np.log(target.mean(axis=0))
    for strength in strengths:
        weights = _newton(rows, target, weights, strength, tolerance)
        # The softmax ignores a shift common to all classes; equal fits shall be equal arrays.
        yield Weights(weights[:-1].copy(), weights[-1] - weights[-1].mean())


def _newton(
    rows: Floats, target: Floats, start: Floats, strength: float, tolerance: float
) -> Floats:
    ridge = np.full((len(start), 1), 1.0 / strength)
    ridge[-1] = 0.0
    spectrum = np.append(np.einsum("ij,ij->j", rows, rows), len(rows))[:, None]
    # What rounding leaves of a gradient; a fit with W* = 0 can be judged against nothing else.
    floor = 16 * EPS * float(np.sqrt(spectrum.sum() * len(rows)))

    def evaluate(weights: Floats) -> _State:
        probability = np.empty_like(target)
        loss = np.empty(len(rows))

        def slope(part: slice, scores: Floats) -> Floats:
            scores -= scores.max(axis=1, keepdims=True)
            chance = np.exp(scores)
            total = chance.sum(axis=1, keepdims=True)
            probability[part] = chance / total
            loss[part] = np.log(total[:, 0]) - (scores * target[part]).sum(axis=1)
            return np.asarray(probability[part] - target[part])

        gradient = _there_and_back(rows, weights, slope) + ridge * weights
        value = float(loss.sum() + 0.5 * (ridge * weights**2).sum())
        return _State(weights, value, probability, gradient)

    def step_from(state: _State, forcing: float) -> Floats:
        p = state.probability

        def curve(part: slice, scores: Floats) -> Floats:
            scores *= p[part]
            return np.asarray(scores - p[part] * scores.sum(axis=1, keepdims=True))

        def hessian(v: Floats) -> Floats:
            return _there_and_back(rows, v, curve) + ridge * v

        # In principal axes the Gram matrix is diagonal; with the mean spread it nears the Hessian.
        spread = (p - p**2).mean(axis=0).clip(EPS)
        preconditioner = 1.0 / (spectrum * spread + ridge)
        return _conjugate_gradients(hessian, -state.gradient, preconditioner, forcing)

    state = evaluate(start)
    for _ in range(NEWTON_STEPS):
        size = float(np.linalg.norm(state.gradient))
        penalty = float(np.linalg.norm(ridge * state.weights))
        if size <= tolerance * penalty + floor:
            return state.weights
        # Rough steps far away, ever finer ones near the optimum: superlinear convergence.
        step = step_from(state, min(0.1, float(np.sqrt(size / (size + penalty)))))
        moved = _line_search(evaluate, state, step)
        if moved is None and size <= STALL * penalty:
            return state.weights
        if moved is None:
            break
        state = moved
    raise DataError(
        f"The logistic regression at C = {strength:g} did not converge (relative gradient "
        f"{size / (penalty + floor):.1e}). Use smaller strengths, or rescale the embedding."
    )


def _line_search(
    evaluate: Callable[[Floats], _State], state: _State, step: Floats
) -> _State | None:
    """The first halving of the step that makes progress, or None where rounding allows none."""
    slope = float((state.gradient * step).sum())
    length = 1.0
    while length > EPS:
        trial = evaluate(state.weights + length * step)
        if trial.value <= state.value + 1e-4 * length * slope:
            return trial
        # Near the optimum J no longer resolves progress, but its gradient still does.
        close = trial.value <= state.value + 1e-12 * abs(state.value)
        if close and np.linalg.norm(trial.gradient) < np.linalg.norm(state.gradient):
            return trial
        length /= 2
    return None


def _there_and_back(
    rows: Floats, weights: Floats, between: Callable[[slice, Floats], Floats]
) -> Floats:
    """[rows, 1]^T between([rows, 1] @ weights), block by block.

    A block is still in the processor's cache on the way back. Time goes into moving rows, so this
    is two to three times as fast as two whole products.
    """
    back = np.zeros_like(weights)
    step = max(1, BLOCK // len(weights))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        scores = between(part, rows[part] @ weights[:-1] + weights[-1])
        back[:-1] += rows[part].T @ scores
        back[-1] += scores.sum(axis=0)
    return back


def _conjugate_gradients(
    product: Callable[[Floats], Floats], right: Floats, preconditioner: Floats, forcing: float
) -> Floats:
    """Solve `product(x) = right` until the preconditioned residual has shrunk by `forcing`."""
    x = np.zeros_like(right)
    residual = right.copy()
    scaled = preconditioner * residual
    direction = scaled
    size = start = float((residual * scaled).sum())
    for _ in range(CG_STEPS):
        image = product(direction)
        pace = size / float((direction * image).sum())
        x += pace * direction
        residual -= pace * image
        scaled = preconditioner * residual
        last, size = size, float((residual * scaled).sum())
        if size <= forcing**2 * start:
            break
        direction = scaled + (size / last) * direction
    return x
