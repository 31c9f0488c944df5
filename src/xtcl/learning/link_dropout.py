"""Message passing without some of the links, others in every step."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from xtcl.learning.arcs import Arcs, EdgeIndex


class LinkDropout:
    """Leaves out each undirected link with a given chance, both directions together.

    What is left keeps its order, so that a sparse matrix is made of it without sorting. Cost O(E
    log E) once, O(E) a draw.
    """

    def __init__(self, edge_index: Tensor, share: float) -> None:
        """`edge_index` [2, n] holds both directions of every link."""
        self.edge_index = edge_index
        self.share = share

    @cached_property
    def _links(self) -> tuple[Tensor, int]:
        """The number of every arc's link, the same for both directions, and how many there are."""
        low, high = self.edge_index.amin(dim=0), self.edge_index.amax(dim=0)
        size = int(high.max()) + 1 if len(high) else 1
        keys, link = torch.unique(low * size + high, return_inverse=True)
        return link, len(keys)

    def draw(self, generator: torch.Generator) -> Tensor:
        """The arcs of the links that stay."""
        if not self.share:
            return self.edge_index
        return self.edge_index[:, ~self._left_out(generator)]

    def in_place(self, num_nodes: int) -> Callable[[torch.Generator], EdgeIndex]:
        """Draws of the same links, whose arcs stay where they are: all have the same shape."""
        if not self.share:
            return self.draw
        arcs = Arcs.of(self.edge_index, num_nodes)
        ordered = LinkDropout(torch.stack([arcs.row, arcs.column]), self.share)
        return lambda generator: arcs.without(ordered._left_out(generator))

    def _left_out(self, generator: torch.Generator) -> Tensor:
        link, count = self._links
        chance = torch.rand(count, generator=generator, device=link.device)
        return (chance < self.share)[link]
