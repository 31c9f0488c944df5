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
from xtcl.errors import UsageError, is_number
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
    Cost: O(n (B + K) h); shared negatives need one matrix product, own ones a gather. Node numbers
    and weights are checked on a CPU; on a GPU that would wait for them.

    """
    _check_measure(similarity, temperature)
    _check_kinds(z, positives, negatives, anchors, weights)
    if positives.dim() == 1:
        positives = positives[:, None]
        weights = weights[:, None] if weights is not None and weights.dim() == 1 else weights
    _check_shapes(z, positives, negatives, anchors, weights)
    _check_values(len(z), positives, negatives, anchors, weights)
    return unchecked_loss(
        z,
        positives,
        negatives,
        anchors=anchors,
        weights=weights,
        similarity=similarity,
        temperature=temperature,
    )


def unchecked_loss(
    z: Tensor,
    positives: Tensor,
    negatives: Tensor,
    *,
    anchors: Tensor | None,
    weights: Tensor | None,
    similarity: Similarity,
    temperature: float,
) -> Tensor:
    """`contrastive_loss` of arguments that are known to be sound, for the steps of a training."""
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
        _check_measure(similarity, temperature)
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


def _check_measure(similarity: object, temperature: Any) -> None:
    if similarity not in ("cosine", "inner"):
        raise UsageError(f"similarity='{similarity}' must be 'cosine' or 'inner'.")
    if isinstance(temperature, Tensor):  # one that is learned
        return
    if not is_number(temperature) or not temperature > 0:
        raise UsageError(f"temperature={temperature} must be above 0.")


def _check_kinds(
    z: object, positives: object, negatives: object, anchors: object, weights: object
) -> None:
    """Refuse what is no tensor, and types that torch would read in another way."""
    nodes = {"positives": positives, "negatives": negatives, "anchors": anchors}
    for name, given in {"z": z, **nodes, "weights": weights}.items():
        if given is None and name in ("anchors", "weights"):
            continue
        if not isinstance(given, Tensor):
            raise UsageError(
                f"{name} is a {type(given).__name__}; pass a tensor, such as torch.as_tensor(...)."
            )
        if name == "z" and not given.is_floating_point():
            raise UsageError(f"z has the type {given.dtype}; pass floats, such as z.float().")
        if name in nodes and given.dtype not in (torch.int64, torch.int32):
            raise UsageError(
                f"{name} has the type {given.dtype}; pass node numbers of type torch.int64."
            )


def _check_values(
    num_nodes: int, positives: Tensor, negatives: Tensor, anchors: Tensor | None, weights: Any
) -> None:
    """Refuse nodes that are not there, and weights that are no shares, where they are on a CPU."""
    for name, nodes, least in (
        ("positives", positives, -1),
        ("negatives", negatives, 0),
        ("anchors", anchors, 0),
    ):
        if nodes is None or not nodes.is_cpu or not nodes.numel():
            continue
        low, high = (int(end) for end in nodes.aminmax())
        if low < least or high >= num_nodes:
            empty = ", or -1 for an empty place" if least else ""
            raise UsageError(
                f"{name} has {low if low < least else high}; pass node numbers from 0 to "
                f"{num_nodes - 1}{empty}."
            )
    if weights is not None and weights.is_cpu and weights.numel():
        smallest, largest = weights.detach().aminmax()
        if not 0 <= smallest <= largest < float("inf"):  # NaN is neither
            raise UsageError("weights must be finite numbers, none of them below 0.")


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
