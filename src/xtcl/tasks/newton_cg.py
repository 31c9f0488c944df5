r"""Multinomial logistic regression by Newton's method with conjugate gradients (Newton-CG).

.. math:: J(W, b) = \sum_i -\log \mathrm{softmax}(W x_i + b)_{y_i} + \frac{|W|^2}{2 C},
          \qquad b \text{ unpenalised}

C is scikit-learn's C for three or more classes. Two classes have a row of weights each, which is
scikit-learn's binary fit at 2 C. J is 1/C-strongly convex, so the stopping rule bounds the error
itself: |W - W*| <= C |grad J|. A fit that is stopped early looks like a worse embedding.
`benchmarks/logistic_solvers.py` compares it with L-BFGS; docs/design.md has the figures.

- P problems with the same rows (the folds of a cross-validation) share each matrix product. Each
  has its own steps and its own stopping rule.
- Newton steps are computed in float32, which halves the memory traffic; J and its gradient in
  float64. If that does not converge (C = 1e7, separable classes), steps are in float64 too.
- Rows are rotated to near-principal axes (`rotate_rows`), for a diagonal preconditioner.
- Fits for several C start at an extrapolation of the last two. A GPU solves all of them at once and
  replays the CG step from a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot, pad

from xtcl.cuda_graphs import GraphCapture, side_stream
from xtcl.errors import DataError

GRAM_COLUMNS = 256  # squared at a time; the squares of all would be a second copy of the rows
ROTATION_BLOCK = 2**22  # numbers of a block of rows to rotate, which is there twice: 32 MiB
MAX_SPAN_ROWS = 1500  # the most rows whose span is computed; for more it costs more than it saves

_MIN_SPAN_RATIO = 1.25  # columns per row from which the span of the rows is computed first
_PRINCIPAL_AXES = 256  # more of them save no further iterations
_SUBSPACE_ITERATIONS = 2

_MAX_NEWTON_STEPS = 200
_MAX_FLOAT32_STEPS = 30  # up to C = 1e5 fits took fewer
_MAX_CG_STEPS = 1000
_CG_STEPS_PER_CHECK = 4  # on a GPU, where reading the result of a check costs about one step
_STALLED_TOLERANCE = 1e-6  # relative error that is accepted where rounding ends the search
_MAX_BATCHED_SCORES = 2**24  # class scores for all C at once on a GPU: 128 MiB

_EPS, _TINY = torch.finfo(torch.float64).eps, torch.finfo(torch.float64).tiny


class HeadWeights(NamedTuple):
    """Coefficients of P fits: the class scores are `rows @ coef[p].T + intercept[p]`."""

    coef: Tensor  # [P, K, d]
    intercept: Tensor  # [P, K]


def solve_path(
    rows: Tensor,
    codes: Tensor,
    num_classes: int,
    Cs: Sequence[float],
    tolerance: float,
    mask: Tensor | None = None,
    start: HeadWeights | None = None,
) -> Iterator[HeadWeights]:
    """Fit float64 rows [n, d] with class codes [n] for each C of `Cs`.

    Problem p is fitted on the rows that `mask` [P, n] marks; without a mask there is one problem,
    of all rows. Every class 0..num_classes-1 needs a row in every problem. The first fit starts at
    `start`, by default at the class frequencies. `tolerance` bounds the relative error of W. Rows
    should be in near-principal axes (`rotate_rows`). Cost of a Hessian product: 4 n d P (K - 1).
    Memory: the rows in float32 and a few arrays [P, K, n].
    """
    weight = rows.new_ones(1, len(rows)) if mask is None else mask.to(rows)
    count = weight.sum(dim=1, keepdim=True)
    squares = [weight @ part.square() for part in torch.split(rows, GRAM_COLUMNS, dim=1)]
    gram = torch.cat([*squares, count], dim=1)[:, None]
    target = one_hot(codes, num_classes).T.to(rows) * weight[:, None]
    contrasts = class_contrasts(num_classes, rows)
    if start is None:
        weights = rows.new_zeros(len(weight), num_classes - 1, rows.shape[1] + 1)
        weights[..., -1] = (target.sum(dim=2) / count).log() @ contrasts
    else:
        weights = contrasts.T @ torch.cat([start.coef, start.intercept[..., None]], dim=2)
    designs = Design(rows, contrasts), Design(rows.float(), contrasts.float())
    ridge = _ridge(weights, Cs[0])
    problems = _Problems(*designs, ridge, weight[:, None], target, gram, ConjugateGradient())
    all_at_once = rows.is_cuda and len(Cs) * target.numel() <= _MAX_BATCHED_SCORES
    solve = _solve_all_at_once if all_at_once else _solve_in_turn
    for solution in solve(problems, weights, Cs, tolerance):
        of_classes = contrasts @ solution
        yield HeadWeights(of_classes[..., :-1], of_classes[..., -1])


def _solve_in_turn(
    problems: _Problems, weights: Tensor, Cs: Sequence[float], tolerance: float
) -> Iterator[Tensor]:
    """For each C the weights of all problems, with a warm start."""
    solutions: list[Tensor] = []
    for C in Cs:
        start = weights if len(solutions) < 2 else 2 * solutions[-1] - solutions[-2]
        ridge = _ridge(weights, C)
        weights = _minimize(problems._replace(ridge=ridge), start, f"{C:g}", tolerance)
        solutions = [*solutions[-1:], weights]
        yield weights


def _solve_all_at_once(
    problems: _Problems, weights: Tensor, Cs: Sequence[float], tolerance: float
) -> Iterator[Tensor]:
    """The same as one batch: on a GPU the number of steps counts, not the size of the batch."""
    times = len(Cs)
    mask, target, gram = (
        part.repeat(times, 1, 1) for part in (problems.mask, problems.target, problems.gram)
    )
    ridge = torch.cat([_ridge(weights, C) for C in Cs])
    batch = problems._replace(ridge=ridge, mask=mask, target=target, gram=gram)
    names = " or ".join(f"{C:g}" for C in Cs)
    yield from _minimize(batch, weights.repeat(times, 1, 1), names, tolerance).chunk(times)


def _ridge(weights: Tensor, C: float) -> Tensor:
    """The L2 penalty 1 / C of each weight [P, 1, d + 1]; 0 for the intercept."""
    ridge = torch.full_like(weights[:, :1], 1.0 / C)
    ridge[..., -1] = 0.0
    return ridge


class _Point(NamedTuple):
    """Weights of P problems, with J and its gradient there."""

    weights: Tensor  # [P, K - 1, d + 1], of class contrasts; the intercept is the last column
    value: Tensor  # [P]
    probability: Tensor  # [P, K, n], 0 for rows outside the mask
    gradient: Tensor


class _Problems(NamedTuple):
    """P problems with the same rows."""

    design: Design
    float32_design: Design
    ridge: Tensor  # [P, 1, d + 1]
    mask: Tensor  # [P, 1, n], 0 or 1
    target: Tensor  # [P, K, n], one-hot classes; 0 for rows outside the mask
    gram: Tensor  # [P, 1, d + 1], the diagonal of the Gram matrix of [rows, 1]
    conjugate_gradient: ConjugateGradient

    def select(self, index: Tensor) -> _Problems:
        """A subset of the problems."""
        names = ("ridge", "mask", "target", "gram")
        return self._replace(**{name: getattr(self, name)[index] for name in names})

    def evaluate(self, weights: Tensor) -> _Point:
        """J and its gradient."""
        log_probability = self.design.scores(weights).log_softmax(dim=1)
        probability = log_probability.exp() * self.mask
        gradient = self.design.gradient(probability - self.target) + self.ridge * weights
        value = 0.5 * _dot(weights, self.ridge * weights) - _dot(self.target, log_probability)
        return _Point(weights, value, probability, gradient)

    def newton_step(self, point: _Point, rtol: Tensor, float32: bool) -> Tensor:
        """The minimum of the quadratic model of J, up to the relative residual `rtol` [P]."""
        design = self.float32_design if float32 else self.design
        num_rows = self.mask.sum(dim=(1, 2)).to(design.rows)
        model = QuadraticModel.around(design, self.ridge, point.probability, self.gram, num_rows)
        norm = _norm(point.gradient).clamp_min(_TINY)[:, None, None]
        right = (-point.gradient / norm).to(design.rows)
        return norm * self.conjugate_gradient(model, right, rtol.to(design.rows))


def _minimize(problems: _Problems, start: Tensor, C: str, tolerance: float) -> Tensor:
    try:
        return _newton(problems, start, C, tolerance, float32=True)
    except DataError:
        return _newton(problems, start, C, tolerance, float32=False)


def _newton(problems: _Problems, start: Tensor, C: str, tolerance: float, float32: bool) -> Tensor:
    """Newton's method with a backtracking line search."""
    # Rounding error of the gradient. It is the only scale there is if W* = 0.
    gram = problems.gram[:, 0]
    floor = 16 * _EPS * (gram.sum(dim=1) * gram[:, -1]).sqrt()
    point = problems.evaluate(start.clone())
    stalled = torch.zeros_like(floor, dtype=torch.bool)
    for _ in range(min(_MAX_FLOAT32_STEPS, _MAX_NEWTON_STEPS) if float32 else _MAX_NEWTON_STEPS):
        gradient, penalty = _norm(point.gradient), _norm(problems.ridge * point.weights)
        # Not the same as `gradient > ...`: NaN has not converged.
        converged = gradient <= tolerance * penalty + floor
        active = ~(converged | stalled)
        if not active.any():
            return point.weights
        # Finer towards the optimum (superlinear convergence), but no finer than `tolerance` needs.
        finest = 0.3 * tolerance * penalty / gradient
        rtol = torch.maximum((gradient / (gradient + penalty)).sqrt(), finest).clip(max=0.3)
        # A GPU replays a step that was captured for all problems; those that are done stay.
        rtol = torch.where(active, rtol, 1.0)
        index = (active | active.is_cuda).nonzero()[:, 0]
        all_active = len(index) == len(active)
        part, at = problems, point
        if not all_active:
            part, at = problems.select(index), _Point(*(each[index] for each in point))
            rtol = rtol[index]
        trial, better = _line_search(part, at, part.newton_step(at, rtol, float32))
        if all_active and better.all():
            point = trial
            continue
        for whole, moved in zip(point, trial, strict=True):
            whole[index[better]] = moved[better]
        stalled[index[~better]] = True
        # A float32 step may have stalled because of its rounding error.
        if (stalled & (float32 | ~(gradient <= _STALLED_TOLERANCE * penalty))).any():
            break
    worst = float((gradient / (penalty + floor)).max())
    raise DataError(
        f"The logistic regression at C = {C} did not converge (relative gradient "
        f"{worst:.1e}). Use smaller values of C, or rescale the embedding."
    )


def _line_search(problems: _Problems, point: _Point, step: Tensor) -> tuple[_Point, Tensor]:
    """Halve each problem's step until J decreases; the new points, and which are better."""
    directional_derivative = _dot(point.gradient, step)
    step_size = torch.ones_like(directional_derivative)
    while True:
        trial = problems.evaluate(point.weights + step_size[:, None, None] * step)
        better = trial.value <= point.value + 1e-4 * step_size * directional_derivative
        # Near the optimum J changes by rounding alone, but its gradient still decreases.
        close = trial.value <= point.value + 1e-12 * point.value.abs()
        better |= close & (_norm(trial.gradient) < _norm(point.gradient))
        again = ~better & (step_size > _EPS)
        if not again.any():
            return trial, better
        step_size = torch.where(again, step_size / 2, step_size)


class Design(NamedTuple):
    """The linear map from weights [P, K - 1, d + 1] to class scores [P, K, n], and its adjoint.

    Softmax ignores what is added to the scores of all classes. So the K rows of weights that sum to
    zero are K - 1 orthonormal contrasts, and every product has K - 1 rows in place of K. Weights
    are stored row by row: both products then read the data in memory order, which is two to three
    times as fast as with a column for each class.
    """

    rows: Tensor
    contrasts: Tensor  # [K, K - 1]

    def scores(self, weights: Tensor) -> Tensor:
        """Class scores of all rows."""
        scores = _matmul(weights[..., :-1], self.rows.T) + weights[..., -1:]
        return self.contrasts @ scores

    def gradient(self, scores: Tensor) -> Tensor:
        """The gradient with respect to the weights, from that with respect to the scores."""
        contrasted = self.contrasts.T @ scores
        gradient = _matmul(contrasted, self.rows)
        return torch.cat([gradient, contrasted.sum(dim=2, keepdim=True)], dim=2)


def class_contrasts(num_classes: int, like: Tensor) -> Tensor:
    """An orthonormal basis [K, K - 1] of vectors that sum to zero, with the dtype of `like`."""
    identity = torch.eye(num_classes).to(like)
    contrasts: Tensor = torch.linalg.qr(identity[:, 1:] - identity[:, :1]).Q
    return contrasts


class QuadraticModel(NamedTuple):
    r"""The second-order model of J around a point, for P problems.

    .. math:: H v = X^T \Big[p \odot (X v) - p \odot \sum_c p_c (X v)_c\Big] + v / C
    """

    design: Design
    ridge: Tensor  # [P, 1, d + 1], or [d + 1] for all problems
    probability: Tensor  # [P, K, n], 0 for rows outside the mask
    rotation: Tensor  # [P, K - 1, K - 1], axes in which classes are nearly uncorrelated
    scale: Tensor  # [P, K - 1, d + 1], about the inverse of the Hessian's diagonal in these axes

    @classmethod
    def around(
        cls, design: Design, ridge: Tensor, probability: Tensor, gram: Tensor, num_rows: Tensor
    ) -> QuadraticModel:
        """The model at a point with these probabilities, in the precision of the design.

        In principal axes the Gram matrix of the rows is diagonal (`gram`). Its Kronecker product
        with the mean covariance of the classes, over `num_rows` [P] rows, is close to the Hessian;
        the eigenvectors of that covariance make it diagonal.
        """
        dtype = design.rows.dtype
        p, ridge = probability.to(dtype), ridge.to(dtype)
        covariance = torch.diag_embed(p.sum(dim=2)) - p @ p.mT
        mean = design.contrasts.T @ covariance @ design.contrasts / num_rows[:, None, None]
        # On the CPU also for a GPU, which takes many short steps for so small a matrix.
        variance, rotation = (part.to(p) for part in torch.linalg.eigh(mean.cpu()))
        variance = variance.clip(torch.finfo(dtype).eps)
        scale = 1.0 / (gram.to(dtype) * variance[:, :, None] + ridge)
        return cls(design, ridge, p, rotation, scale)

    def hessian_product(self, v: Tensor) -> Tensor:
        """The Hessian times `v` [P, K - 1, d + 1]."""
        p = self.probability
        scores = self.design.scores(v) * p
        scores = scores.addcmul_(p, scores.sum(dim=1, keepdim=True), value=-1)
        return self.design.gradient(scores).addcmul_(self.ridge, v)

    def precondition(self, v: Tensor) -> Tensor:
        """About the inverse of the Hessian times `v`."""
        result: Tensor = self.rotation @ (self.scale * (self.rotation.mT @ v))
        return result


class _CGState(NamedTuple):
    """Preconditioned CG for H x = b of P problems. Its tensors are changed in place."""

    x: Tensor
    residual: Tensor
    direction: Tensor
    squared_norm: Tensor  # [P], of the residual, in the norm of the preconditioner
    target: Tensor  # [P], the squared norm at which a problem is solved
    active: Tensor  # [P], problems that are not solved; the others do not move

    @classmethod
    def start(cls, model: QuadraticModel, right: Tensor, rtol: Tensor) -> _CGState:
        """At x = 0; a problem is solved when its residual has shrunk by `rtol` [P]."""
        direction = model.precondition(right)
        squared = _dot(right, direction)
        target = rtol**2 * squared
        zero = torch.zeros_like(right)
        return cls(zero, right.clone(), direction, squared, target, squared > target)

    def step(self, model: QuadraticModel) -> None:
        """One iteration: a Hessian product."""
        zero = torch.zeros_like(self.squared_norm)
        image = model.hessian_product(self.direction)
        alpha = torch.where(self.active, self.squared_norm / _dot(self.direction, image), zero)
        self.x.addcmul_(alpha[:, None, None], self.direction)
        self.residual.addcmul_(alpha[:, None, None], image, value=-1)
        scaled = model.precondition(self.residual)
        squared = _dot(self.residual, scaled)
        self.active.logical_and_(squared > self.target)
        beta = torch.where(self.active, squared / self.squared_norm, zero)
        self.squared_norm.copy_(squared)
        torch.addcmul(scaled, beta[:, None, None], self.direction, out=self.direction)


class _CapturedStep(NamedTuple):
    """A CG step as a CUDA graph, and the tensors that it reads and changes."""

    model: QuadraticModel
    state: _CGState
    graph: torch.cuda.CUDAGraph


class ConjugateGradient:
    """Minimises quadratic models of one design, one after the other.

    Hestenes and Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems", 1952. A step
    is twenty small kernels, and a fit takes thousands of steps; so a GPU replays them from a CUDA
    graph.
    """

    def __init__(self) -> None:
        self._capture = GraphCapture()
        self._captured: dict[tuple[int, torch.dtype], _CapturedStep] = {}

    def __call__(self, model: QuadraticModel, right: Tensor, rtol: Tensor) -> Tensor:
        """Solve `hessian_product(x) = right` until the residual has shrunk by `rtol` [P]."""
        state = _CGState.start(model, right, rtol)
        if right.is_cuda:
            with side_stream(right.device):
                return self._replay(model, state)
        for _ in range(_MAX_CG_STEPS):
            state.step(model)
            if not state.active.any():
                break
        return state.x

    def _replay(self, model: QuadraticModel, state: _CGState) -> Tensor:
        key = (len(state.x), state.x.dtype)
        if key not in self._captured:
            state.step(model)
            graph, _ = self._capture.record(lambda: state.step(model))
            self._captured[key] = _CapturedStep(model, state, graph)
        captured = self._captured[key]
        if captured.state is not state:
            old, new = (*captured.model[1:], *captured.state), (*model[1:], *state)
            for to, values in zip(old, new, strict=True):
                to.copy_(values)
        for _ in range(_MAX_CG_STEPS // _CG_STEPS_PER_CHECK):
            for _ in range(_CG_STEPS_PER_CHECK):
                captured.graph.replay()
            if not captured.state.active.any():
                break
        return captured.state.x.clone()


class RotatedRows(NamedTuple):
    """`rows = inverse(coordinates) + centre`, with coordinates [n, r] where r is d or n - 1."""

    coordinates: Tensor
    centre: Tensor
    rotation: _Rotation
    span: Tensor | None  # orthonormal basis [d, r] of the centred rows; None: of all directions

    def inverse(self, coordinates: Tensor) -> Tensor:
        """The centred rows [n, d] that have these coordinates."""
        inside = self.rotation.inverse(coordinates)
        return inside if self.span is None else inside @ self.span.T

    def rotate(self, weights: HeadWeights) -> HeadWeights:
        """Fits of the rows as fits of the coordinates."""
        inside = weights.coef if self.span is None else weights.coef @ self.span
        coef = torch.stack([self.rotation.apply_(each.clone()) for each in inside])
        return HeadWeights(coef, weights.intercept + weights.coef @ self.centre)

    def unrotate(self, weights: HeadWeights) -> HeadWeights:
        """Fits of the coordinates as fits of the rows."""
        coef = torch.stack([self.inverse(each) for each in weights.coef])
        return HeadWeights(coef, weights.intercept - coef @ self.centre)


def rotate_rows(rows: Tensor, *, overwrite: bool = False) -> RotatedRows:
    """Centre and rotate float64 rows [n, d], n > 1, in place with `overwrite`.

    This changes the cost of a fit and not its result: an L2-penalised W lies in the span of the
    centred rows, the centre moves into the unpenalised intercept, and J does not depend on a
    rotation. Only the first 256 axes are principal axes, and only nearly so: their spread is what
    makes conjugate gradients slow, and an SVD would cost many times as much as the fit. Cost O(256
    n d), and O(n^2 d) for a span. Memory: a copy of the rows unless they are overwritten, and two
    more to find the span of few rows.
    """
    n, d = rows.shape
    centre = rows.mean(dim=0)
    centred = rows.sub_(centre) if overwrite else rows - centre
    if d < _MIN_SPAN_RATIO * n or n > MAX_SPAN_ROWS:
        rotation = _principal_axes_first(centred)
        return RotatedRows(rotation.apply_(centred), centre, rotation, None)
    # Centred rows sum to zero, so that the last adds nothing to the span of the others.
    span, others = torch.linalg.qr(centred[:-1].T)
    inside = torch.cat([others.T, -others.sum(dim=1)[None]])
    rotation = _principal_axes_first(inside)
    return RotatedRows(rotation.apply_(inside), centre, rotation, span)


class _Rotation(NamedTuple):
    """An orthonormal basis of all d directions, as a product of Householder reflections."""

    reflectors: Tensor
    scales: Tensor

    def apply_(self, rows: Tensor) -> Tensor:
        """The coordinates [n, d] of `rows` [n, d] in this basis, in place. Cost O(256 n d)."""
        for part in torch.split(rows, max(1, ROTATION_BLOCK // max(1, rows.shape[1]))):
            part.copy_(torch.ormqr(self.reflectors, self.scales, part, left=False))
        return rows

    def inverse(self, coordinates: Tensor) -> Tensor:
        """The rows that have these coordinates."""
        return torch.ormqr(self.reflectors, self.scales, coordinates, left=False, transpose=True)


def _principal_axes_first(rows: Tensor) -> _Rotation:
    """A basis whose first vectors are nearly the leading principal axes of centred rows.

    By randomised subspace iteration with a fixed seed: Halko, Martinsson and Tropp, "Finding
    Structure with Randomness", SIAM Review 53, 2011.
    """
    d = rows.shape[1]
    generator = torch.Generator(rows.device).manual_seed(0)
    size = (d, min(_PRINCIPAL_AXES, d))
    basis = torch.randn(size, generator=generator, dtype=rows.dtype, device=rows.device)
    for _ in range(_SUBSPACE_ITERATIONS):
        basis = torch.linalg.qr(rows.T @ (rows @ basis)).Q
    image = rows @ basis
    axes = basis @ torch.linalg.eigh(image.T @ image).eigenvectors
    return _Rotation(*torch.geqrf(axes))


def _matmul(stack: Tensor, matrix: Tensor) -> Tensor:
    """`stack @ matrix` as one product.

    On a CPU the number of rows is padded to a multiple of four: products with 10 or 15 rows took
    half as long again as with 12 or 16.
    """
    flat = stack.flatten(0, 1)
    if not stack.is_cuda and len(flat) % 4:
        flat = pad(flat, (0, 0, 0, -len(flat) % 4))
    return (flat @ matrix)[: stack[..., 0].numel()].view(*stack.shape[:2], -1)


def _dot(left: Tensor, right: Tensor) -> Tensor:
    """The inner product of each problem [P]."""
    return (left * right).flatten(1).sum(dim=1)


def _norm(vectors: Tensor) -> Tensor:
    """The Euclidean norm of each problem [P]."""
    return _dot(vectors, vectors).sqrt()
