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
from torch.nn.functional import one_hot, pad

from xtcl.cuda_graphs import GraphCapture, side_stream
from xtcl.errors import DataError

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
    lowest: ConjugateGradient

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
        model = QuadraticModel.around(
            design, self.ridge, state.probability, self.spectrum, rows_kept
        )
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
    given in principal axes (`rotate_rows`), where the preconditioner is good. `tolerance` bounds
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
    problems = _Problems(exact, rough, ridge, mask[:, None], target, spectrum, ConjugateGradient())
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


# Rows of data between weights of class contrasts and scores of classes.
#
# The softmax ignores what is common to all classes, so weights are sought where they sum to zero
# over
# them: K classes are K - 1 orthonormal contrasts, and all products are with K - 1 rows of weights.


class Design(NamedTuple):
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


def class_contrasts(num_classes: int, like: Tensor) -> Tensor:
    """[K, K - 1], of the kind of `like`."""
    identity = torch.eye(num_classes).to(like)
    contrasts: Tensor = torch.linalg.qr(identity[:, 1:] - identity[:, :1]).Q
    return contrasts


def _product(stack: Tensor, matrix: Tensor) -> Tensor:
    """`stack @ matrix` as one product.

    On a CPU, of a multiple of four rows: 10 or 15 took half as long again as 12 or 16.
    """
    flat = stack.flatten(0, 1)
    if not stack.is_cuda and len(flat) % 4:
        flat = pad(flat, (0, 0, 0, -len(flat) % 4))
    return (flat @ matrix)[: stack[..., 0].numel()].view(*stack.shape[:2], -1)


def dot(left: Tensor, right: Tensor) -> Tensor:
    """One inner product for each problem."""
    return (left * right).flatten(1).sum(dim=1)


def norm(vectors: Tensor) -> Tensor:
    """The length of each problem's."""
    return dot(vectors, vectors).sqrt()


# J of a logistic regression as a parabola around a point, and the step to its lowest point.
#
#     H s = -grad J,     H v = X^T [p * (X v) - p * sum_c p_c (X v)_c] + v / C
#
# for P problems side by side, by conjugate gradients with a preconditioner: Hestenes and Stiefel,
# "Methods of Conjugate Gradients for Solving Linear Systems", 1952. A product with H costs
# 4 n d P (K - 1) operations.
#
# One of these steps is twenty small kernels, and there are thousands of them in a head: a GPU gets
# them recorded and repeats them by itself.


STEPS = 1000


LOOK = 4
"""Steps that a GPU takes before it is asked whether they were enough: asking costs about one."""


class QuadraticModel(NamedTuple):
    """The second-order model of J around a point, of P problems."""

    design: Design
    ridge: Tensor
    """[P, 1, d + 1], or [d + 1] for all"""
    probability: Tensor
    """[P, K, n], 0 for rows that a problem does not keep."""
    turn: Tensor
    """[P, K - 1, K - 1]: axes in which classes vary apart from each other, nearly."""
    scale: Tensor
    """[P, K - 1, d + 1]: the inverse of the Hessian's diagonal in these axes, nearly."""

    @classmethod
    def around(
        cls, design: Design, ridge: Tensor, probability: Tensor, spectrum: Tensor, kept: Tensor
    ) -> QuadraticModel:
        """The model where rows have these probabilities, in the precision of the design.

        In principal axes the Gram matrix is diagonal: `spectrum` [P, 1, d + 1]. With the mean over
        the `kept` [P] rows of how classes covary it nears the Hessian, which the eigenvectors of
        that mean then make diagonal, too.
        """
        precision = design.rows.dtype
        p, ridge = probability.to(precision), ridge.to(precision)
        covariance = torch.diag_embed(p.sum(dim=2)) - p @ p.mT
        mean = design.contrasts.T @ covariance @ design.contrasts / kept[:, None, None]
        # So small a matrix is nothing to a CPU, and many short steps to a GPU.
        spread, turn = (part.to(p) for part in torch.linalg.eigh(mean.cpu()))
        least = torch.finfo(precision).eps
        scale = 1.0 / (spectrum.to(precision) * spread.clip(least)[:, :, None] + ridge)
        return cls(design, ridge, p, turn, scale)

    def curvature(self, v: Tensor) -> Tensor:
        """The Hessian times `v` [P, K - 1, d + 1]."""
        p = self.probability
        scores = self.design.scores(v) * p
        curved = scores.addcmul_(p, scores.sum(dim=1, keepdim=True), value=-1)
        return self.design.back(curved).addcmul_(self.ridge, v)

    def precondition(self, v: Tensor) -> Tensor:
        """About the Hessian's inverse times `v`."""
        near: Tensor = self.turn @ (self.scale * (self.turn.mT @ v))
        return near


class _Search(NamedTuple):
    """P searches for x with curvature(x) = right, each changed in place."""

    x: Tensor
    residual: Tensor
    direction: Tensor
    size: Tensor
    """[P]: of the residual, as the preconditioner measures it."""
    enough: Tensor
    """[P]: the size at which a search ends."""
    going: Tensor
    """[P]: a search that is done stands still while others go on."""

    @classmethod
    def begin(cls, model: QuadraticModel, right: Tensor, forcing: Tensor) -> _Search:
        """At zero, to end when the residual has shrunk by `forcing` [P]."""
        direction = model.precondition(right)
        size = dot(right, direction)
        enough = forcing**2 * size
        return cls(torch.zeros_like(right), right.clone(), direction, size, enough, size > enough)

    def advance(self, model: QuadraticModel) -> None:
        """One step."""
        still = torch.zeros_like(self.size)
        image = model.curvature(self.direction)
        pace = torch.where(self.going, self.size / dot(self.direction, image), still)
        self.x.addcmul_(pace[:, None, None], self.direction)
        self.residual.addcmul_(pace[:, None, None], image, value=-1)
        scaled = model.precondition(self.residual)
        size = dot(self.residual, scaled)
        self.going.logical_and_(size > self.enough)
        turn = torch.where(self.going, size / self.size, still)
        self.size.copy_(size)
        torch.addcmul(scaled, turn[:, None, None], self.direction, out=self.direction)


class _Held(NamedTuple):
    """A recorded step, and what it reads and changes."""

    model: QuadraticModel
    search: _Search
    step: torch.cuda.CUDAGraph


class ConjugateGradient:
    """Finds the lowest points of parabolas of one design, one after the other."""

    def __init__(self) -> None:
        self._recorder = GraphCapture()
        self._held: dict[tuple[int, torch.dtype], _Held] = {}

    def __call__(self, model: QuadraticModel, right: Tensor, forcing: Tensor) -> Tensor:
        """Solve `curvature(x) = right` until the residual has shrunk by `forcing` [P]."""
        search = _Search.begin(model, right, forcing)
        if right.is_cuda:
            with side_stream(right.device):
                return self._replayed(model, search)
        for _ in range(STEPS):
            search.advance(model)
            if not search.going.any():
                break
        return search.x

    def _replayed(self, model: QuadraticModel, search: _Search) -> Tensor:
        key = (len(search.x), search.x.dtype)
        if key not in self._held:
            search.advance(model)
            graph, _ = self._recorder.record(lambda: search.advance(model))
            self._held[key] = _Held(model, search, graph)
        held = self._held[key]
        if held.search is not search:
            # The design, a model's first part, is always the same.
            fresh = (*model[1:], *search)
            for part, new in zip((*held.model[1:], *held.search), fresh, strict=True):
                part.copy_(new)
        for _ in range(STEPS // LOOK):
            for _ in range(LOOK):
                held.step.replay()
            if not held.search.going.any():
                break
        return held.search.x.clone()


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


class RotatedRows(NamedTuple):
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


def rotate_rows(rows: Tensor, *, overwrite: bool = False) -> RotatedRows:
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
        return RotatedRows(turn.forward_(centred), centre, turn, None)
    # Centred rows sum to zero: the last is made of the others, and adds nothing to their span.
    span, others = torch.linalg.qr(centred[:-1].T)
    inside = torch.cat([others.T, -others.sum(dim=1)[None]])
    turn = _leading_first(inside)
    return RotatedRows(turn.forward_(inside), centre, turn, span)


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
