r"""The compact embedding: at most 256 columns, each of mean 0 and variance 1, by one linear map.

.. math:: c_u = (z_u - m)\, M, \qquad M = \gamma\, S V R, \qquad
          S \Sigma S\, V = V \Lambda, \qquad S = I + (s - 1)\, B B^\top

z_u is a node's row of the full embedding, m the mean row and :math:`\Sigma` the covariance of the
rows. B is an orthonormal basis of the weight vectors of a logistic head, and s stretches the rows
along it until they have three quarters of their variance there. V are the first 256 principal
directions of the stretched rows. Without the stretch they lose a part of what the head needs, for
most of the variance has nothing to do with the task. Without a logistic head, as for links, S is
the identity.

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
from xtcl.tasks.logistic import LogisticHead

if TYPE_CHECKING:
    from xtcl.estimator import XTCL

COMPACT_WIDTH = 256

HEAD_SHARE = 0.75
"""Share of the variance of the stretched rows that the directions of the head hold."""

_OVERSAMPLING = 64
_ITERATIONS = 4
_NUMBERS_PER_BLOCK = 2**24  # of rows that are centred at a time: 64 MiB
_SAME_DIRECTION = 1e-6  # a singular value of the head's weights below this share is rounding
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
    head = model.head_
    weights = head.coef_ if isinstance(head, LogisticHead) else None
    return fit_compact_map(model.fitted_task_.fitted.embedding, weights)


def fit_compact_map(
    embedding: Tensor, head_weights: np.ndarray | None = None, width: int = COMPACT_WIDTH
) -> CompactMap:
    """Fit the map on all rows [V, W], stretched along `head_weights` [classes, W].

    There are fewer than `width` columns where the rows have fewer directions. These are found by
    subspace iteration from a fixed start; for W up to `width` + 64 they are exact. Cost
    9 V W (width + 64) multiplications; memory a few [W, width + 64], and a block of rows.
    """
    rows, size = embedding.detach(), embedding.shape[1]
    mean = rows.mean(dim=0, dtype=torch.float64).to(rows.dtype)
    basis, stretch = _head_directions(rows, mean, head_weights)

    def stretched(directions: Tensor) -> Tensor:
        return directions + (stretch - 1) * (basis @ (basis.T @ directions))

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


def _head_directions(
    rows: Tensor, mean: Tensor, head_weights: np.ndarray | None
) -> tuple[Tensor, float]:
    """The basis B [W, directions] of the head's weights, and the stretch s along it."""
    if head_weights is None:
        return rows.new_zeros(rows.shape[1], 0), 1.0
    weights = torch.from_numpy(head_weights).T
    left, singular, _ = torch.linalg.svd(weights, full_matrices=False)
    basis = left[:, singular > _SAME_DIRECTION * singular[0]].to(rows)
    total = inside = 0.0
    for _, centred in _centred_blocks(rows, mean):
        total += float(centred.square().sum())
        inside += float((centred @ basis).square().sum())
    if inside <= 0:
        return basis, 1.0
    return basis, max(1.0, (HEAD_SHARE / (1 - HEAD_SHARE) * (total - inside) / inside) ** 0.5)


def _centred_blocks(rows: Tensor, mean: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Slices of the rows, and the rows minus the mean."""
    step = max(1, _NUMBERS_PER_BLOCK // max(1, rows.shape[1]))
    for first in range(0, len(rows), step):
        yield slice(first, first + step), rows[first : first + step] - mean
