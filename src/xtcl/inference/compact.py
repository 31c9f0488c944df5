r"""The compact embedding: at most 256 columns, each of mean 0 and variance 1, by one linear map.

.. math:: c_u = (z_u - m)\, M, \qquad M = \gamma\, [U \; V]\, R

z_u is a node's row of the full embedding, m the mean row. [U V] are orthonormal directions:

- U spans a ridge regression of the class probabilities that the head predicts, for all nodes, on z.
- V are principal directions of what is left of the rows, where the labelled nodes together have
  half of the weight. With few labels V spans their rows nearly, and all that a linear head can
  learn from them lies in that span.

Principal components of all nodes alone lose a part of what the head reads, for most of the
variance has nothing to do with the task. Where no classes are predicted, as for links, V are those.

Two other ways to keep it were tried, and cost CiteSeer a point: the head's own weights in the place
of U, and rows stretched along U. Labelled nodes lie further out along such directions than others,
so that a second head, fitted on those nodes, finds every penalty too large.

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
_LEAST_SINGULAR = 1e-3  # of the first; class probabilities sum to 1, so one at least is rounding
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
    embedding = model.fitted_task_.fitted.embedding
    answer = None if model.head_ is None else model.predictions_
    if not isinstance(answer, NodePredictions):
        return fit_compact_map(embedding)
    return fit_compact_map(embedding, answer.probabilities, model.training_data_.labelled)


def fit_compact_map(
    embedding: Tensor,
    chances: np.ndarray | None = None,
    labelled: np.ndarray | None = None,
    width: int = COMPACT_WIDTH,
) -> CompactMap:
    """Fit the map on all rows [V, W], with class `chances` [V, classes] and `labelled` nodes.

    There are fewer than `width` columns where the rows have fewer directions. V is found by
    subspace iteration from a fixed start; for W up to `width` + 64 it is exact. Cost
    9 V W (width + 64) multiplications; memory a few [W, width + 64], and a block of rows.
    """
    rows = embedding.detach()
    mean = rows.mean(dim=0, dtype=torch.float64).to(rows.dtype)
    basis = rows.new_zeros(rows.shape[1], 0)
    if chances is not None:
        basis = _predictive_directions(rows, mean, torch.from_numpy(chances).to(rows))
    basis = torch.cat([basis, _principal_directions(rows, mean, basis, labelled, width)], dim=1)
    covariance = basis.new_zeros(2 * basis.shape[1:], dtype=torch.float64)
    for _, centred in _centred_blocks(rows, mean):
        scores = (centred @ basis).double()
        covariance += scores.T @ scores / len(rows)
    variance, vectors = _leading(covariance, width)
    if not len(variance):  # all rows are the same
        return CompactMap(mean.cpu().numpy(), np.zeros((rows.shape[1], 1), dtype=np.float32))
    weight = basis.double() @ vectors
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


def _predictive_directions(rows: Tensor, mean: Tensor, chances: Tensor) -> Tensor:
    """U: an orthonormal basis of the regression weights."""
    weights = _ridge(rows, mean, chances)
    basis, singular, _ = torch.linalg.svd(weights, full_matrices=False)
    kept: Tensor = basis[:, singular > _LEAST_SINGULAR * singular[0]]
    return kept


def _principal_directions(
    rows: Tensor, mean: Tensor, basis: Tensor, labelled: np.ndarray | None, width: int
) -> Tensor:
    """V: up to `width` directions in all with those of the basis, which they do not contain."""
    nodes, size = rows.shape
    share = rows.new_full((nodes, 1), 1 / nodes)
    if labelled is not None and len(labelled):
        share[torch.from_numpy(labelled).to(rows.device)] += 1 / len(labelled)
    wanted = min(width, size) - basis.shape[1]
    if wanted <= 0:
        return rows.new_zeros(size, 0)
    tried = min(wanted + _OVERSAMPLING, size - basis.shape[1])

    def outside(directions: Tensor) -> Tensor:
        return directions - basis @ (basis.T @ directions)

    start = torch.randn(size, tried, generator=torch.Generator().manual_seed(0))
    directions = torch.linalg.qr(outside(start.to(rows))).Q
    for _ in range(_ITERATIONS):
        image = torch.zeros_like(directions)
        for block, centred in _centred_blocks(rows, mean):
            image += centred.T @ (share[block] * (centred @ directions))
        directions = torch.linalg.qr(outside(image)).Q
    covariance = rows.new_zeros(tried, tried, dtype=torch.float64)
    for block, centred in _centred_blocks(rows, mean):
        scores = (centred @ directions).double()
        covariance += scores.T @ (share[block] * scores)
    _, vectors = _leading(covariance, wanted)
    return outside(directions @ vectors.to(directions))


def _leading(covariance: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The largest eigenvalues, at most so many, and their vectors; none that are rounding."""
    variance, vectors = (part.flip(-1)[..., :number] for part in torch.linalg.eigh(covariance))
    kept = (variance > 0) & (variance > _LEAST_VARIANCE * variance[:1])
    return variance[kept], vectors[:, kept]


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
