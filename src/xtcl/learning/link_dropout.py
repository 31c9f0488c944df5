"""Message passing without some of the links, others in every step."""

from __future__ import annotations

import torch
from torch import Tensor


class LinkDropout:
    """Leaves out each undirected link with a given chance, both directions together.

    What is left keeps its order, so that a sparse matrix is made of it without sorting. Cost O(E
    log E) once, O(E) a draw.
    """

    def __init__(self, edge_index: Tensor, share: float) -> None:
        """`edge_index` [2, n] holds both directions of every link."""
        self.edge_index = edge_index
        self.share = share
        if share:
            low, high = edge_index.amin(dim=0), edge_index.amax(dim=0)
            size = int(high.max()) + 1 if len(high) else 1
            keys, self._link = torch.unique(low * size + high, return_inverse=True)
            self._count = len(keys)

    def draw(self, generator: torch.Generator) -> Tensor:
        """The arcs of the links that stay."""
        if not self.share:
            return self.edge_index
        chance = torch.rand(self._count, generator=generator, device=self._link.device)
        return self.edge_index[:, (chance >= self.share)[self._link]]
