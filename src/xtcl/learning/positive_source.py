"""Lists of positives that a training step draws from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


@dataclass(frozen=True)
class PositiveSource:
    """For every node a list of positives, how many to draw a step (None: all), and their weight."""

    start: Tensor  # int64 [V + 1]
    members: Tensor  # int64 [sum of lengths]
    draws: int | None
    weight: float = 1.0

    @classmethod
    def from_table(
        cls, table: np.ndarray, draws: int | None, weight: float = 1.0
    ) -> PositiveSource:
        """From a table [V, B] with -1 in empty places."""
        filled = table >= 0
        start = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
        members = table[filled].astype(np.int64)
        return cls(torch.from_numpy(start), torch.from_numpy(members), draws, weight)

    @classmethod
    def from_links(cls, adjacency: sp.csr_array, draws: int, weight: float = 1.0) -> PositiveSource:
        """Every node's neighbours."""
        start, members = (part.astype(np.int64) for part in (adjacency.indptr, adjacency.indices))
        return cls(torch.from_numpy(start), torch.from_numpy(members), draws, weight)

    def to(self, device: torch.device) -> PositiveSource:
        """The same source on `device`."""
        return PositiveSource(
            self.start.to(device), self.members.to(device), self.draws, self.weight
        )

    @cached_property
    def widest(self) -> int:
        """The length of the longest list; asked for once, since a recorded step must not wait."""
        return int(self.start.diff().max())

    def draw(self, nodes: Tensor, generator: torch.Generator) -> Tensor:
        """`draws` members for each of `nodes`, with replacement, -1 for a node without any.

        Without a number to draw, all members, filled up with -1.
        """
        first = self.start[nodes, None]
        length = self.start[nodes + 1, None] - first
        if self.draws is None:
            place = torch.arange(self.widest, device=nodes.device).expand(len(nodes), -1)
        else:
            chance = torch.rand(len(nodes), self.draws, generator=generator, device=nodes.device)
            place = (chance * length).long().minimum((length - 1).clamp_min(0))
        if not len(self.members):
            return torch.full_like(place, -1)
        found = self.members[(first + place).clamp_max(len(self.members) - 1)]
        return found.masked_fill(place >= length, -1)  # a GPU need not wait for that


def draw_positives(
    sources: list[PositiveSource], nodes: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Positives [n, B] of `nodes` from all sources side by side, and their weights [n, B]."""
    drawn = [source.draw(nodes, generator) for source in sources]
    weights = [
        torch.full(found.shape, source.weight, device=nodes.device)
        for source, found in zip(sources, drawn, strict=True)
    ]
    return torch.cat(drawn, dim=1), torch.cat(weights, dim=1)
