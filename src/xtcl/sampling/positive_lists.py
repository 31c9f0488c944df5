"""Lists of positives for every node, of which each step of training draws some."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


@dataclass(frozen=True)
class PositiveLists:
    """A list of positives for every node, of which each step draws some."""

    start: Tensor
    """int64 [V + 1], the list of node u is members[start[u] : start[u + 1]]."""
    members: Tensor
    """int64 [sum of lengths]"""
    num_per_step: int | None
    """How many positives a step draws for each anchor (None: all)."""
    weight: float = 1.0
    """How much each of them counts in the loss."""

    @classmethod
    def from_table(
        cls, table: np.ndarray, num_per_step: int | None, weight: float = 1.0
    ) -> PositiveLists:
        """From a table [V, B] with -1 in empty places."""
        filled = table >= 0
        start = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
        members = table[filled].astype(np.int64)
        return cls(torch.from_numpy(start), torch.from_numpy(members), num_per_step, weight)

    @classmethod
    def from_links(
        cls, adjacency: sp.csr_array, num_per_step: int, weight: float = 1.0
    ) -> PositiveLists:
        """Every node's neighbours."""
        start, members = (part.astype(np.int64) for part in (adjacency.indptr, adjacency.indices))
        return cls(torch.from_numpy(start), torch.from_numpy(members), num_per_step, weight)

    def to(self, device: torch.device) -> PositiveLists:
        """The same lists on `device`."""
        start, members = self.start.to(device), self.members.to(device)
        return PositiveLists(start, members, self.num_per_step, self.weight)

    @cached_property
    def max_length(self) -> int:
        """The length of the longest list; cached, since a captured step may not wait for it."""
        return int(self.start.diff().max())

    def draw(self, nodes: Tensor, generator: torch.Generator) -> Tensor:
        """`num_per_step` members for each of `nodes`, with replacement; -1 for an empty list.

        Without a number all members, filled up with -1.
        """
        first = self.start[nodes, None]
        length = self.start[nodes + 1, None] - first
        if self.num_per_step is None:
            place = torch.arange(self.max_length, device=nodes.device).expand(len(nodes), -1)
        else:
            shape = len(nodes), self.num_per_step
            uniform = torch.rand(*shape, generator=generator, device=nodes.device)
            place = (uniform * length).long().minimum((length - 1).clamp_min(0))
        if not len(self.members):
            return torch.full_like(place, -1)
        drawn = self.members[(first + place).clamp_max(len(self.members) - 1)]
        # A mask, not a selection: its size would have to be read back from a GPU.
        return drawn.masked_fill(place >= length, -1)


def draw_positives(
    sources: list[PositiveLists], nodes: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Positives [n, B] of `nodes` from all sources side by side, and their weights [n, B]."""
    drawn = [source.draw(nodes, generator) for source in sources]
    weights = [
        torch.full(positives.shape, source.weight, device=nodes.device)
        for source, positives in zip(sources, drawn, strict=True)
    ]
    return torch.cat(drawn, dim=1), torch.cat(weights, dim=1)
