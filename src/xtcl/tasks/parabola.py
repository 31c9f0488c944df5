"""J of a logistic regression as a parabola around a point, and the step to its lowest point.

    H s = -grad J,     H v = X^T [p * (X v) - p * sum_c p_c (X v)_c] + v / C

for P problems side by side, by conjugate gradients with a preconditioner: Hestenes and Stiefel,
"Methods of Conjugate Gradients for Solving Linear Systems", 1952. A product with H costs
4 n d P (K - 1) operations.

One of these steps is twenty small kernels, and there are thousands of them in a head: a GPU gets
them recorded and repeats them by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from xtcl.recorded import Recorder, own_stream
from xtcl.tasks.logistic_design import Design, dot

STEPS = 1000
LOOK = 4
"""Steps that a GPU takes before it is asked whether they were enough: asking costs about one."""


class Parabola(NamedTuple):
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
    ) -> Parabola:
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
    def begin(cls, model: Parabola, right: Tensor, forcing: Tensor) -> _Search:
        """At zero, to end when the residual has shrunk by `forcing` [P]."""
        direction = model.precondition(right)
        size = dot(right, direction)
        enough = forcing**2 * size
        return cls(torch.zeros_like(right), right.clone(), direction, size, enough, size > enough)

    def advance(self, model: Parabola) -> None:
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

    model: Parabola
    search: _Search
    step: torch.cuda.CUDAGraph


class ParabolaSearch:
    """Finds the lowest points of parabolas of one design, one after the other."""

    def __init__(self) -> None:
        self._recorder = Recorder()
        self._held: dict[tuple[int, torch.dtype], _Held] = {}

    def __call__(self, model: Parabola, right: Tensor, forcing: Tensor) -> Tensor:
        """Solve `curvature(x) = right` until the residual has shrunk by `forcing` [P]."""
        search = _Search.begin(model, right, forcing)
        if right.is_cuda:
            with own_stream(right.device):
                return self._replayed(model, search)
        for _ in range(STEPS):
            search.advance(model)
            if not search.going.any():
                break
        return search.x

    def _replayed(self, model: Parabola, search: _Search) -> Tensor:
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
