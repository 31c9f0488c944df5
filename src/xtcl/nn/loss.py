r"""The contrastive loss, Equation 1 of the paper.

.. math:: \mathcal L(u) = -\frac 1B \sum_{b=1}^B \log \frac{e^{s(u, p_b)}}
          {e^{s(u, p_b)} + \sum_{k=1}^K e^{s(u, n_k)}}

with B positives :math:`p_b` and K negatives :math:`n_k` of node u. The paper's s is the inner
product :math:`z_u^\top z_v`; with no bound on the length of z it was measured to collapse, so the
default is the cosine divided by a temperature.

Citation: van den Oord, Li and Vinyals, "Representation Learning with Contrastive Predictive
Coding", 2018, and Equation 1 of Lin and Neville, "Improving Node Representation by Boosting
Task-Aware Contrastive Loss", 2024.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from xtcl.config import Similarity
from xtcl.errors import UsageError
from xtcl.nn.functional import normalize

FEW_POSITIVES = 32
"""Positives of an anchor up to which a CPU is faster column by column."""


class Loss(Protocol):
    """A loss for `train`; see `contrastive_loss` for its arguments."""

    def __call__(
        self,
        z: Tensor,
        positives: Tensor,
        negatives: Tensor,
        *,
        anchors: Tensor,
        weights: Tensor,
        similarity: Similarity,
        temperature: float,
    ) -> Tensor:
        """The loss of a step, a scalar."""


def contrastive_loss(
    z: Tensor,
    positives: Tensor,
    negatives: Tensor,
    *,
    anchors: Tensor | None = None,
    weights: Tensor | None = None,
    similarity: Similarity = "cosine",
    temperature: float = 0.5,
) -> Tensor:
    """Mean of Equation 1 over the anchors that have a positive.

    Args:
        z: embeddings [V, h].
        positives: nodes [n, B] for each anchor, or [n] where each has one; places with -1 are empty
            and do not count.
        negatives: nodes [K] shared by all anchors, or [n, K]. An anchor that turns up among its own
            negatives does not count as one.
        anchors: the nodes u [n]; all nodes when left out.
        weights: how much each positive counts [n, B]; all alike when left out. The weights of an
            anchor are scaled to sum to one.
        similarity: "cosine" or the paper's "inner" product.
        temperature: what the similarity is divided by; the paper's form is 1.

    With l the log-sum-exp over negatives, a term is softplus(l - s): it neither overflows nor loses
    digits. Half precision is computed in single precision, which a sum over many anchors needs.
    Cost: O(n (B + K) h); shared negatives need one matrix product, own ones a gather.

    """
    if positives.dim() == 1:
        positives = positives[:, None]
        weights = weights[:, None] if weights is not None and weights.dim() == 1 else weights
    _check_shapes(z, positives, negatives, anchors, weights)
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    if similarity == "cosine":
        z = normalize(z)
    nodes = torch.arange(len(z), device=z.device) if anchors is None else anchors
    query = (z if anchors is None else _rows(z, anchors)) / temperature
    filled = positives >= 0
    attraction = _products(query, z, positives.clamp_min(0))
    if negatives.dim() == 1:
        repulsion = query @ _rows(z, negatives).T
    else:
        repulsion = _products(query, z, negatives)
    repulsion = repulsion.masked_fill(negatives == nodes[:, None], -torch.inf)
    terms = F.softplus(torch.logsumexp(repulsion, dim=1, keepdim=True) - attraction)
    share = filled.to(z.dtype) if weights is None else weights * filled
    total = share.sum(dim=1)
    counted = total > 0
    # An empty place must not reach the sum even when its term is not finite.
    per_anchor = (share * terms.masked_fill(~filled, 0.0)).sum(dim=1) / total.where(counted, 1.0)
    # Not per_anchor[counted]: its size would have to be read back from a GPU.
    return per_anchor.where(counted, 0.0).sum() / counted.sum().clamp_min(1)


class ContrastiveLoss(nn.Module):
    """`contrastive_loss` as a module, which holds the similarity and the temperature.

    The defaults are those of `contrastive_loss`. `similarity="inner", temperature=1` is Equation 1
    as printed.
    """

    def __init__(self, similarity: Similarity = "cosine", temperature: float = 0.5) -> None:
        super().__init__()
        if similarity not in ("cosine", "inner"):
            raise UsageError(f"similarity='{similarity}' must be 'cosine' or 'inner'.")
        if not temperature > 0:
            raise UsageError(f"temperature={temperature} must be above 0.")
        self.similarity: Similarity = similarity
        self.temperature = temperature

    def forward(
        self,
        z: Tensor,
        positives: Tensor,
        negatives: Tensor,
        *,
        anchors: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The loss, a scalar; see `contrastive_loss` for the arguments."""
        return contrastive_loss(
            z,
            positives,
            negatives,
            anchors=anchors,
            weights=weights,
            similarity=self.similarity,
            temperature=self.temperature,
        )

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return f"similarity='{self.similarity}', temperature={self.temperature}"


def _check_shapes(
    z: Tensor, positives: Tensor, negatives: Tensor, anchors: Tensor | None, weights: Tensor | None
) -> None:
    """Refuse shapes that do not fit together, which torch would broadcast or name by numbers."""
    if z.dim() != 2:
        raise UsageError(f"z has shape {tuple(z.shape)}; pass one embedding a row, [V, h].")
    number = len(z) if anchors is None else len(anchors)
    shape = tuple(positives.shape)
    if positives.dim() != 2 or len(positives) != number:
        rest = "" if anchors is not None else ", or name the anchors with anchors="
        raise UsageError(
            f"positives has shape {shape}; pass a row for each of the {number} anchors{rest}."
        )
    if negatives.dim() not in (1, 2) or (negatives.dim() == 2 and len(negatives) != number):
        raise UsageError(
            f"negatives has shape {tuple(negatives.shape)}; pass one list [K] that all anchors "
            f"share, or a row for each of the {number} anchors."
        )
    if weights is not None and weights.shape != positives.shape:
        raise UsageError(
            f"weights has shape {tuple(weights.shape)}; pass one weight for each of the "
            f"positives, {shape}."
        )


def _products(query: Tensor, z: Tensor, nodes: Tensor) -> Tensor:
    """The inner products of every row of `query` [n, h] with the rows `nodes` [n, B] of z."""
    if not z.is_cpu or not 0 < nodes.shape[1] <= FEW_POSITIVES:
        products: Tensor = _RowProducts.apply(query, _rows(z, nodes))  # type: ignore[no-untyped-call]
        return products
    # On a CPU one column at a time stays in the cache, and is three times as fast.
    columns = [(query * _rows(z, column)).sum(dim=1) for column in nodes.unbind(dim=1)]
    return torch.stack(columns, dim=1)


class _RowProducts(torch.autograd.Function):
    """Inner products [n, B] of every row of [n, h] with B rows of its own, [n, B, h].

    The gradient of those is a product of numbers, which torch makes into n products of matrices
    that take a GPU several times as long.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(query, rows)
        return torch.einsum("nh,nbh->nb", query, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        query, rows = ctx.saved_tensors
        gradient = gradient.to(rows.dtype)  # half precision under autocast
        of_query = torch.einsum("nb,nbh->nh", gradient, rows)
        return of_query, gradient[:, :, None] * query[:, None]


def _rows(z: Tensor, nodes: Tensor) -> Tensor:
    """z[nodes], with a gradient that is summed faster: on a GPU without sorting the nodes."""
    if z.is_cpu:
        return F.embedding(nodes, z)
    return z.index_select(0, nodes.reshape(-1)).view(*nodes.shape, -1)
