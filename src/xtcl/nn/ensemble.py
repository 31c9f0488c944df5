"""Several encoders, concatenated with the attributes they started from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from xtcl.nn.functional import normalize
from xtcl.nn.propagation import Propagation

HOPS = (0, 1, 2)
"""Steps of smoothing of the attributes that are concatenated to the embeddings."""


ROWS_PER_COPY = 2**15
"""Rows of a part that are normalised at a time: a copy of all would be as large as the embedding.
"""


class LikelyLinks(NamedTuple):
    """Both directions of the likely links, int64 [2, n], of the `num_nodes` nodes of a fit."""

    links: Tensor
    num_nodes: int

    def with_new_nodes(self, edge_index: Tensor) -> Tensor:
        """The links, and those of `edge_index` that have an end after the nodes of the fit."""
        new = (edge_index >= self.num_nodes).any(dim=0)
        return torch.cat([self.links, edge_index[:, new]], dim=1) if new.any() else self.links


class EncoderEnsemble(nn.Module):
    r"""The embeddings of the encoders, concatenated with attributes smoothed 0, 1 and 2 times.

    .. math:: z_u = \big[\, \sqrt t\, w_1 z^1_u \;\Vert\; \dots \;\Vert\;
              \sqrt t\, w_m z^m_u \;\Vert\;
              a \, (x_u \;\Vert\; (\hat A x)_u \;\Vert\; (\hat A^2 x)_u) / \sqrt 3 \,\big]

    with the rows of every part at unit length before they are weighted. Training keeps what the
    positives share and discards the rest. The attributes are a skip connection, as in Xu and
    others, "Representation Learning on Graphs with Jumping Knowledge Networks", ICML 2018. A head
    with a strong penalty all but ignores a part with a small weight.

    `attributes` is a. 0 leaves the attributes out; the embedding of a single encoder is then
    returned as it is. `trust` is t, a number between 0 and 1 for all nodes: the less the positives
    can be trusted, the less the encoders weigh. Without attributes t is 1.

    `likely` are the likely links of the nodes of the fit, both directions, for the encoders that
    `over_likely` marks. Nodes that come later have their given links there.
    """

    def __init__(
        self,
        encoders: Iterable[nn.Module],
        weights: Sequence[float],
        attributes: float = 0.0,
        trust: float = 1.0,
        *,
        likely: LikelyLinks | None = None,
        over_likely: Sequence[bool] = (),
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(encoders)  # the name of the stored weights
        self.weights = tuple(weights)
        self.attributes = attributes
        # A buffer: a fit decides it, so it is saved with the weights of the encoders.
        self.register_buffer("trust", torch.tensor(trust))
        self.trust: Tensor
        self.over_likely = tuple(over_likely) or (False,) * len(self.members)
        if likely is not None:
            self.register_buffer("likely_links", likely.links)
            self.register_buffer("likely_nodes", torch.tensor(likely.num_nodes))
        self.smoothings = nn.ModuleList(Propagation(hops) for hops in HOPS)

    @property
    def likely(self) -> LikelyLinks | None:
        """The likely links; None where no encoder reads them."""
        if not hasattr(self, "likely_links"):
            return None
        return LikelyLinks(self.get_buffer("likely_links"), int(self.get_buffer("likely_nodes")))

    def with_trust(self, trust: float) -> EncoderEnsemble:
        """The same encoders with another trust."""
        other = EncoderEnsemble(
            self.members,
            self.weights,
            self.attributes,
            trust,
            likely=self.likely,
            over_likely=self.over_likely,
        )
        return other.train(self.training)

    def links_of_members(self, edge_index: Tensor) -> list[Tensor]:
        """The links that each encoder passes messages over."""
        likely = self.likely
        over = edge_index if likely is None else likely.with_new_nodes(edge_index)
        return [over if is_likely else edge_index for is_likely in self.over_likely]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Embeddings [V, sum of the widths]."""
        links = self.links_of_members(edge_index)
        parts = (encoder(x, own) for encoder, own in zip(self.members, links, strict=True))
        return self.join(parts, x, edge_index)

    def join(self, parts: Iterable[Tensor], x: Tensor, edge_index: Tensor) -> Tensor:
        """The embeddings `parts` and the attributes of the nodes as one embedding.

        Where all encoders have a `width`, the parts are taken one after the other, so that no two
        of them need be in memory at once. Memory beside them: the result, and a block of rows.
        """
        if len(self.members) == 1 and not self.attributes:
            (only,) = parts
            return only
        widths: list[Any] = [getattr(encoder, "width", None) for encoder in self.members]
        if None in widths:
            parts = list(parts)
            widths = [part.shape[1] for part in parts]
        columns = x.shape[1] * len(HOPS) if self.attributes else 0
        joined = x.new_empty(len(x), sum(widths) + columns)
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
    """Write `part`, its rows at norm `scale`, from column `first` on; returns the next column."""
    end = first + part.shape[1]
    for start in range(0, len(part), ROWS_PER_COPY):
        rows = slice(start, start + ROWS_PER_COPY)
        joined[rows, first:end] = scale * normalize(part[rows])
    return end
