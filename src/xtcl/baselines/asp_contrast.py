"""The contrast between views of all nodes, in blocks of rows, with its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from xtcl.learning.rough_products import rough_products
from xtcl.relations.block_height import block_height


class Pair(NamedTuple):
    """Two views by number, and how much their contrast counts."""

    first: int
    second: int
    weight: float = 1.0


def contrast(
    views: Tensor, pairs: Sequence[Pair], temperature: float, *, height: int | None = None
) -> Tensor:
    r"""The weighted sum of :math:`l(a, b)` over `pairs` of views [m, V, h], their rows of length 1.

    .. math:: l(a, b) = \frac1V \sum_i -\log \frac{e^{a_i^\top b_i / \tau}}
              {\sum_j e^{a_i^\top b_j / \tau} + \sum_{j \neq i} e^{a_i^\top a_j / \tau}
              + \sum_{j \neq i} e^{b_i^\top b_j / \tau}}

    All that node i adds to the value and to the gradient comes from the rows i of the similarities.
    So a block of `height` rows is done with once it has been seen: nothing of it is kept for, or
    computed again in, the backward pass. What a view is to itself serves every pair it is in.

    Cost: O((m + n) V^2 h) for n pairs; memory O((m + 1) height V) beside the views. Cosines are at
    most 1, so that nothing overflows while the temperature is above 0.02.
    """
    height = height or block_height(views.shape[1])
    value: Tensor = _Contrast.apply(  # type: ignore[no-untyped-call]
        views, tuple(pairs), temperature, height
    )
    return value


class _Contrast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, views: Tensor, pairs: tuple[Pair, ...], temperature: float, height: int
    ) -> Tensor:
        with rough_products():  # cosines of three digits are enough for a softmax
            value, gradient = _in_blocks(views, pairs, temperature, height)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return upstream * gradient, None, None, None


def _in_blocks(
    views: Tensor, pairs: tuple[Pair, ...], temperature: float, height: int
) -> tuple[Tensor, Tensor]:
    """The value, and its gradient [m, V, h]."""
    num_nodes = views.shape[1]
    value, gradient = views.new_zeros(()), torch.zeros_like(views)

    def similarities(first: int, second: int, rows: slice) -> Tensor:
        return ((views[first, rows] / temperature) @ views[second].T).exp_()

    def add(first: int, second: int, rows: slice, similar: Tensor, share: Tensor) -> None:
        """The gradient of similarities [b, V] of the `rows` of one view to all of another."""
        gradient[first, rows] += share * (similar @ views[second])
        gradient[second] += similar.T @ (share * views[first, rows])

    for start in range(0, num_nodes, height):
        rows = slice(start, start + height)
        within = [similarities(view, view, rows) for view in range(len(views))]
        for similar in within:
            similar.diagonal(start).zero_()
        totals = [similar.sum(dim=1, keepdim=True) for similar in within]
        shares = [torch.zeros_like(total) for total in totals]
        for first, second, weight in pairs:
            across = similarities(first, second, rows)
            total = across.sum(dim=1, keepdim=True) + totals[first] + totals[second]
            own = (views[first, rows] * views[second, rows]).sum(dim=1, keepdim=True)
            scale = weight / num_nodes
            value += scale * (total.log() - own / temperature).sum()
            share = scale / temperature / total
            add(first, second, rows, across, share)
            gradient[first, rows] -= scale / temperature * views[second, rows]
            gradient[second, rows] -= scale / temperature * views[first, rows]
            for view in (first, second):
                shares[view] += share
        for view, similar in enumerate(within):
            add(view, view, rows, similar, shares[view])
    return value, gradient
