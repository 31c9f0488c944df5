r"""The compact embedding: at most 256 columns, each of mean 0 and variance 1, by one linear map.

.. math:: c_u = (z_u - m)\, M, \qquad M = \gamma\, S V R, \qquad
          S \Sigma S\, V = V \Lambda, \qquad S = (I + f\, A A^\top)^{1/2}

z_u is a node's row of the full embedding, m the mean row and :math:`\Sigma` the covariance of the
rows. A is a ridge regression of the class probabilities that the head predicts, for all nodes, on
z. S stretches the rows along it, as far as putting :math:`\sqrt f (z_u - m) A` beside them would,
with f such that both have the same variance. V are the first 256 principal directions of the
stretched rows. Without the stretch they lose a part of what the head reads, for most of the
variance has nothing to do with the task. Where no classes are predicted, as for links, S is the
identity.

The head's own weights in the place of A were tried. They know the labelled nodes too well: a second
head that was fitted on those nodes chose far too small a penalty (docs/design.md).

R is a rotation, and gamma a number, that give every column the variance 1. Distances and angles
stay those of the principal components. Components divided by their deviations, one by one, would
not keep them: small ones are noise, and logistic regression lost 13 points on Cora.

m and M are fitted on the nodes of the fit. Test labels do not reach them; training labels do,
through the head. They are saved with the model: nodes that come later go through the same map.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from xtcl.errors import DataError
from xtcl.tasks.results import NodePredictions

if TYPE_CHECKING:
    from xtcl.estimator import XTCL

COMPACT_WIDTH = 256

_OVERSAMPLING = 64
_ITERATIONS = 4
_NUMBERS_PER_BLOCK = 2**24  # of rows that are centred at a time: 64 MiB
_PENALTY_ROWS = 10  # the ridge penalty is the squared length of so many centred rows
_RIDGE_STEPS = 30
_TINY = 1e-30
_LEAST_VARIANCE = 1e-8  # a direction below this share of the variance of the first is rounding


@dataclass(frozen=True)
class CompactMap:
    """The map from a full embedding [n, W] to the compact one [n, k]."""

    mean: NDArray[np.float32]
    """[W]"""
    weight: NDArray[np.float32]
    """[W, k]"""

    def apply(self, embedding: np.ndarray | Tensor) -> NDArray[np.float32]:
        """The compact rows, float32 [n, k]."""
        rows = torch.as_tensor(embedding)
        if rows.shape[1] != len(self.mean):
            raise DataError(
                f"The embedding has {rows.shape[1]} columns, but the compact embedding was made "
                f"from {len(self.mean)}; pass rows of the same model."
            )
        weight = torch.tensor(self.weight, device=rows.device)
        compact = rows.new_empty(len(rows), weight.shape[1])
        for block, centred in _centred_blocks(rows, torch.tensor(self.mean, device=rows.device)):
            compact[block] = centred @ weight
        return np.asarray(compact.cpu().numpy())

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        """Both arrays, for a safetensors file."""
        return {"compact.mean": self.mean, "compact.weight": self.weight}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> CompactMap | None:
        """The map that `to_tensors` wrote; None where there is none, as in older files."""
        if "compact.weight" not in tensors:
            return None
        return cls(tensors["compact.mean"], tensors["compact.weight"])


def compact_map_of(model: XTCL) -> CompactMap:
    """The map of a fitted model."""
    answer = None if model.head_ is None else model.predictions_
    chances = answer.probabilities if isinstance(answer, NodePredictions) else None
    return fit_compact_map(model.fitted_task_.fitted.embedding, chances)


def fit_compact_map(
    embedding: Tensor, chances: np.ndarray | None = None, width: int = COMPACT_WIDTH
) -> CompactMap:
    """Fit the map on all rows [V, W], stretched towards the class `chances` [V, classes].

    There are fewer than `width` columns where the rows have fewer directions. These are found by
    subspace iteration from a fixed start; for W up to `width` + 64 they are exact. Cost
    9 V W (width + 64) multiplications; memory a few [W, width + 64], and a block of rows.
    """
    rows, size = embedding.detach(), embedding.shape[1]
    mean = rows.mean(dim=0, dtype=torch.float64).to(rows.dtype)
    if chances is None:
        basis, stretch = rows.new_zeros(size, 0), rows.new_zeros(0, 1)
    else:
        basis, stretch = _predictive_directions(rows, mean, torch.from_numpy(chances).to(rows))

    def stretched(directions: Tensor) -> Tensor:
        return directions + basis @ (stretch * (basis.T @ directions))

    generator = torch.Generator().manual_seed(0)
    start = torch.randn(size, min(size, width + _OVERSAMPLING), generator=generator)
    directions = torch.linalg.qr(start.to(rows)).Q
    for _ in range(_ITERATIONS):
        along, image = stretched(directions), torch.zeros_like(directions)
        for _, centred in _centred_blocks(rows, mean):
            image += centred.T @ (centred @ along)
        directions = torch.linalg.qr(stretched(image)).Q

    along = stretched(directions)
    covariance = along.new_zeros(2 * along.shape[1:], dtype=torch.float64)
    for _, centred in _centred_blocks(rows, mean):
        scores = (centred @ along).double()
        covariance += scores.T @ scores / len(rows)
    variance, vectors = (part.flip(-1)[..., :width] for part in torch.linalg.eigh(covariance))
    if variance[0] <= 0:  # all rows are the same
        return CompactMap(mean.cpu().numpy(), np.zeros((size, 1), dtype=np.float32))
    kept = variance > _LEAST_VARIANCE * variance[0]
    weight, variance = along.double() @ vectors[:, kept], variance[kept]
    largest = weight.gather(0, weight.abs().argmax(dim=0, keepdim=True))
    weight *= largest.sign()  # an eigenvector has no sign of its own
    rotation = torch.from_numpy(equalising_rotation(variance.cpu().numpy())).to(weight)
    weight = weight @ rotation / variance.mean().sqrt()
    return CompactMap(mean.cpu().numpy(), weight.float().cpu().numpy())


def equalising_rotation(variance: np.ndarray) -> NDArray[np.float64]:
    """R, orthogonal, such that the diagonal of R^T diag(variance) R is constant.

    `variance` is in descending order. One rotation in a plane for each column but one: two columns,
    one above the mean variance and one below it, give a column of the mean variance, and what
    remains goes on to the next.
    """
    share = variance / variance.mean()
    fresh = deque(range(1, len(share)))
    columns = np.eye(len(share))
    rest, above = columns[0], share[0]
    rotated = []
    while fresh:
        other = fresh.pop() if above > 1 else fresh.popleft()  # the smallest, or the largest
        gap = above - share[other]
        cosine = ((1 - share[other]) / gap) ** 0.5 if gap else 1.0
        sine = (1 - cosine**2) ** 0.5
        rotated.append(cosine * rest + sine * columns[other])
        rest = cosine * columns[other] - sine * rest
        above += share[other] - 1
    return np.array([*rotated, rest]).T


def _predictive_directions(rows: Tensor, mean: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    """An orthonormal basis of the regression weights A, and S - 1 [directions, 1] along it."""
    weights = _ridge(rows, mean, chances)
    basis, singular, _ = torch.linalg.svd(weights, full_matrices=False)
    total = inside = 0.0
    for _, centred in _centred_blocks(rows, mean):
        total += float(centred.square().sum())
        inside += float((centred @ weights).square().sum())
    if inside <= 0:  # all nodes have the same chances
        return basis[:, :0], singular[:0, None]
    return basis, (1 + total / inside * singular[:, None] ** 2).sqrt() - 1


def _ridge(rows: Tensor, mean: Tensor, chances: Tensor) -> Tensor:
    """A [W, classes]: the ridge regression of `chances` on the centred rows, with an intercept.

    By conjugate gradients, for every class alone; with the penalty they need few steps.
    """
    solution = residual = direction = rows.new_zeros(rows.shape[1], chances.shape[1])
    penalty = 0.0
    target = chances - chances.mean(dim=0)
    for block, centred in _centred_blocks(rows, mean):
        penalty += _PENALTY_ROWS / len(rows) * float(centred.square().sum())
        residual = residual + centred.T @ target[block]
    direction, size = residual, residual.square().sum(dim=0)
    for _ in range(_RIDGE_STEPS):
        image = penalty * direction
        for _, centred in _centred_blocks(rows, mean):
            image += centred.T @ (centred @ direction)
        step = size / (direction * image).sum(dim=0).clamp_min(_TINY)
        solution = solution + step * direction
        residual = residual - step * image
        last, size = size, residual.square().sum(dim=0)
        direction = residual + size / last.clamp_min(_TINY) * direction
    return solution


def _centred_blocks(rows: Tensor, mean: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Slices of the rows, and the rows minus the mean."""
    step = max(1, _NUMBERS_PER_BLOCK // max(1, rows.shape[1]))
    for first in range(0, len(rows), step):
        yield slice(first, first + step), rows[first : first + step] - mean
