"""Several encoders side by side, with the attributes they started from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from xtcl.nn.functional import normalize
from xtcl.nn.propagation import Propagation

HOPS = (0, 1, 2)
"""How often the attributes that stand beside the members are smoothed."""


ROWS = 2**15
"""Rows of a part that are brought to their length at a time: copies of all would be as large again
as the embedding itself."""


class EncoderEnsemble(nn.Module):
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

    def trusting(self, trust: float) -> EncoderEnsemble:
        """The same members, trusted differently."""
        other = EncoderEnsemble(self.members, self.weights, self.attributes, trust)
        return other.train(self.training)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Embeddings [V, sum of the widths]."""
        return self.join((member(x, edge_index) for member in self.members), x, edge_index)

    def join(self, parts: Iterable[Tensor], x: Tensor, edge_index: Tensor) -> Tensor:
        """The members' embeddings `parts` and the attributes of the nodes as one embedding.

        Where the members know their widths, the parts are taken one after the other: no two of
        them need be there at once. Memory beside them: the result, and a block of rows.
        """
        if len(self.members) == 1 and not self.attributes:
            (only,) = parts
            return only
        widths: list[Any] = [getattr(member, "width", None) for member in self.members]
        if None in widths:
            parts = list(parts)
            widths = [part.shape[1] for part in parts]
        kept = x.shape[1] * len(HOPS) if self.attributes else 0
        joined = x.new_empty(len(x), sum(widths) + kept)
        trust = self.trust.sqrt() if self.attributes else 1.0
        done = 0
        for weight, part in zip(self.weights, parts, strict=True):
            done = _fill(joined, done, trust * weight, part)
        if self.attributes:
            scale = self.attributes / len(HOPS) ** 0.5
            for smooth in self.smoothings:
                done = _fill(joined, done, scale, smooth(x, edge_index))
        return joined


def _fill(joined: Tensor, first: int, scale: Tensor | float, part: Tensor) -> int:
    """Put `part`, its rows at the length `scale`, into the columns from `first`; the next free."""
    end = first + part.shape[1]
    for start in range(0, len(part), ROWS):
        rows = slice(start, start + ROWS)
        joined[rows, first:end] = scale * normalize(part[rows])
    return end
