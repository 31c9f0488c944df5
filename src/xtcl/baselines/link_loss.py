"""The loss of a graph auto-encoder: links against non-links drawn at random."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

Scorer = Callable[[Tensor], Tensor]
"""Log-odds [n] of pairs from the element-wise products of their ends [n, h]."""


def inner_product(products: Tensor) -> Tensor:
    """The scorer of a graph auto-encoder."""
    return products.sum(dim=1)


def link_loss(
    z: Tensor, links: Tensor, non_links: Tensor, scorer: Scorer = inner_product
) -> Tensor:
    r"""Mean binary cross-entropy of :math:`\sigma(s(z_u \odot z_v))` over pairs [2, n].

    With the inner product as s: Kipf and Welling, "Variational Graph Auto-Encoders", 2016. Cost
    O(n h), and that of the scorer.
    """
    u, v = torch.cat([links, non_links], dim=1)
    targets = torch.zeros(len(u), device=z.device)
    targets[: links.shape[1]] = 1.0
    # The gradient of an embedding look-up, unlike that of z[u], is summed in a fixed order.
    ends = F.embedding(u, z), F.embedding(v, z)
    return F.binary_cross_entropy_with_logits(scorer(ends[0] * ends[1]), targets)


class NonLinks:
    """Uniform draws, on the device of the links, from the pairs that are no links.

    They come with replacement: an epoch sees a vanishing share of all pairs, and so no draw needs a
    sort. `links` [2, E] are sorted, each once with u < v, as a graph keeps them.
    """

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.keys = links[0] * num_nodes + links[1]

    def draw(self, want: int, generator: torch.Generator) -> Tensor:
        """Non-links [2, n]; n is `want`, or less where most of all pairs are links.

        Links and loops are struck from twice as many pairs as are wanted. Cost O(n log E).
        """
        ends = torch.randint(
            self.num_nodes, (2, 2 * want + 64), generator=generator, device=self.keys.device
        )
        u, v = ends.min(dim=0).values, ends.max(dim=0).values
        keys = u * self.num_nodes + v
        places = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        free = (u != v) & (self.keys[places] != keys)
        return torch.stack([u[free], v[free]])[:, :want]
