"""Several encoders side by side, with the attributes they started from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from xtcl.learning.encoders.propagation import Propagation
from xtcl.learning.unit_rows import unit_rows

HOPS = (0, 1, 2)
"""How often the attributes that stand beside the members are smoothed."""


class Joined(nn.Module):
    r"""The members' embeddings beside attributes smoothed 0, 1 and 2 times.

    .. math:: z_u = \big[\, \sqrt t\, w_1 z^1_u \;\Vert\; \dots \;\Vert\;
              \sqrt t\, w_m z^m_u \;\Vert\;
              a \, (x_u \;\Vert\; (\hat A x)_u \;\Vert\; (\hat A^2 x)_u) / \sqrt 3 \,\big]

    with every part at unit length before it is weighted. Training keeps what the positives share
    and lets go of the rest; a head that sees the attributes too loses nothing (a skip connection,
    as in Xu and others, "Representation Learning on Graphs with Jumping Knowledge Networks", ICML
    2018). A part with a small weight is one that a head with a strong penalty all but ignores.
    `attributes` is a; 0 leaves them out, and one member without them is given as it is. `trust` is
    t, how far the positives can be trusted, one number between 0 and 1 for all nodes: what was
    learned from doubtful ones weighs less beside the attributes. Without attributes t is 1.
    """

    def __init__(
        self,
        members: Iterable[nn.Module],
        weights: Sequence[float],
        attributes: float = 0.0,
        trust: float = 1.0,
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.weights = tuple(weights)
        self.attributes = attributes
        # Found by a fit, so it is saved with what the members learned.
        self.register_buffer("trust", torch.tensor(trust))
        self.trust: Tensor
        self.smoothings = nn.ModuleList(Propagation(hops) for hops in HOPS)

    def trusting(self, trust: float) -> Joined:
        """The same members, trusted differently."""
        other = Joined(self.members, self.weights, self.attributes, trust)
        return other.train(self.training)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Embeddings [V, sum of the widths]."""
        return self.join([member(x, edge_index) for member in self.members], x, edge_index)

    def join(self, parts: list[Tensor], x: Tensor, edge_index: Tensor) -> Tensor:
        """The members' embeddings `parts` and the attributes of the nodes as one embedding."""
        if len(parts) == 1 and not self.attributes:
            return parts[0]
        trust = self.trust.sqrt() if self.attributes else 1.0
        joined = [trust * w * unit_rows(part) for w, part in zip(self.weights, parts, strict=True)]
        if self.attributes:
            scale = self.attributes / len(HOPS) ** 0.5
            joined += [scale * unit_rows(smooth(x, edge_index)) for smooth in self.smoothings]
        return torch.cat(joined, dim=1)
