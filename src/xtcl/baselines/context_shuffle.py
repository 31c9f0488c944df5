"""Nodes of one estimated class are given each other's attributes, and make pairs to contrast."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from xtcl.baselines.gcn import TwoLayerGCN
from xtcl.baselines.sparse_attributes import sparse_if_few
from xtcl.learning.encoders.dropout import dropout


class Contexts:
    """Nodes grouped by their estimated classes [n]; draws partners inside and outside of them.

    Cost of the grouping and of either draw: O(n log n), on the device of the classes.
    """

    def __init__(self, classes: Tensor) -> None:
        sizes = classes.bincount()
        self.classes = classes
        self.grouped = classes.argsort(stable=True)
        self.size = sizes[classes]
        self.start = (sizes.cumsum(0) - sizes)[classes]
        self.several = bool((self.size < len(classes)).any())

    def shuffle(self, generator: torch.Generator) -> Tensor:
        """A permutation [n] of the nodes that keeps classes; all such are equally likely.

        Node i is given node `shuffle[i]`, which may be i itself.
        """
        nodes = torch.randperm(len(self.classes), generator=generator, device=self.classes.device)
        dealt = nodes[self.classes[nodes].argsort(stable=True)]
        return torch.empty_like(dealt).index_put((self.grouped,), dealt)

    def outside(self, generator: torch.Generator) -> Tensor:
        """For every node one of another class, each equally likely [n]; [0] if there is no other.

        The places before and after the node's own class are numbered through and one is drawn.
        """
        if not self.several:
            return self.grouped[:0]
        share = torch.rand(
            len(self.classes), generator=generator, dtype=torch.double, device=self.classes.device
        )
        place = (share * (len(self.classes) - self.size)).long()
        return self.grouped[place + torch.where(place >= self.start, self.size, 0)]


def contrast(
    discriminator: Callable[[Tensor], Tensor],
    z: Tensor,
    shuffled: Tensor,
    contexts: Contexts,
    generator: torch.Generator,
) -> Tensor:
    r"""How badly pairs of one context are told from pairs of two.

    .. math:: \tfrac12 \sum_{p \in \{F, S\}} \overline{-\log \sigma(D(p_i))}
              \; + \; \overline{-\log (1 - \sigma(D(z_i, z_j)))}

    Bars are means over the nodes i. Positive are :math:`F = (z'_i, z_i)`, a node before and after
    the shuffle, and :math:`S = (z'_{\pi(i)}, z'_i)`, two nodes of a class after it; negative is a
    node with another, j, of another class, through which no gradient goes. `z` and `shuffled` (z')
    are [n, C]; D takes rows [n, 2 C]. A mean over no pair at all is 0. Cost: 3 n calls of D.
    """
    partner = contexts.shuffle(generator)
    other = contexts.outside(generator)
    same = _surprise(discriminator, shuffled, z, alike=True)
    shared = _surprise(discriminator, F.embedding(partner, shuffled), shuffled, alike=True)
    apart = _surprise(discriminator, z[: len(other)], z.detach()[other], alike=False)
    return (same + shared) / 2 + apart


def _surprise(
    discriminator: Callable[[Tensor], Tensor], left: Tensor, right: Tensor, *, alike: bool
) -> Tensor:
    """Mean binary cross-entropy of the pairs (left, right)."""
    scores = discriminator(torch.cat([left, right], dim=1))
    targets = torch.full_like(scores, float(alike))
    total = F.binary_cross_entropy_with_logits(scores, targets, reduction="sum")
    return total / max(len(scores), 1)


class SharingGCN(TwoLayerGCN):
    """A GCN whose nodes may be given each other's attributes, and a judge of pairs of its rows."""

    def __init__(
        self, in_features: int, hidden: int, width: int, dropout: float, discriminator: int
    ) -> None:
        super().__init__(in_features, hidden, width, dropout)
        self.discriminator = nn.Sequential(
            nn.Linear(2 * width, discriminator), nn.ReLU(), nn.Linear(discriminator, 1)
        )

    def forward(self, x: Tensor, edge_index: Tensor, order: Tensor | None = None) -> Tensor:
        """Class scores [V, width]; with an `order`, node i has the attributes of `order[i]`.

        (PX)W = P(XW): the few columns of the product are moved, not the many of `x`, which is
        dense or CSR.
        """
        h = dropout(x, self.dropout, self.training) @ self.first.weight.T
        h = h if order is None else F.embedding(order, h)
        h = F.relu(self.propagation(h, edge_index))
        h = self.second(F.dropout(h, self.dropout, self.training))
        out: Tensor = self.propagation(h, edge_index)
        return out


def lighter(x: Tensor) -> Tensor:
    """The attributes as CSR where that is faster: on a CPU, if few of them are not zero.

    Dropout of all of Cora's and CiteSeer's zeros would take nine tenths of the time.
    """
    return sparse_if_few(x) if x.is_cpu else x
