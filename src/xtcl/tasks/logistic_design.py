"""Rows of data between weights of class contrasts and scores of classes.

The softmax ignores what is common to all classes, so weights are sought where they sum to zero over
them: K classes are K - 1 orthonormal contrasts, and all products are with K - 1 rows of weights.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad


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
