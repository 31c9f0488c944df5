"""Encoders that are made of layers, each of which looks no further than the next link."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from xtcl.learning.arcs import EdgeIndex
from xtcl.learning.block import Block
from xtcl.learning.encoders.smoothed import SmoothedAttributes


class Layered(nn.Module, ABC):
    """Layers over smoothed attributes, which are computed once and need no gradient.

    Layer by layer such an encoder can also be computed for some of the nodes: see
    `xtcl.learning.mini_batch` and `xtcl.learning.layer_wise`.
    """

    smoothed: SmoothedAttributes

    @property
    @abstractmethod
    def width(self) -> int:
        """Columns of the embedding."""

    @property
    @abstractmethod
    def looks(self) -> tuple[bool, ...]:
        """For each layer whether it reads a node's neighbours, or only the node itself."""

    @property
    def reach(self) -> int:
        """How many links far the layers look."""
        return sum(self.looks)

    @abstractmethod
    def layer(self, number: int, h: Tensor, links: EdgeIndex | Block) -> Tensor:
        """What layer `number` makes of the rows `h`.

        `links` are those of all nodes, or a block: `h` then has the rows of its sources,
        and the result those of its targets. A layer that does not look does not read it.
        """

    def forward(self, x: Tensor, edge_index: EdgeIndex) -> Tensor:
        """Embeddings [V, width]."""
        h: Tensor = self.smoothed(x, edge_index)
        for number in range(len(self.looks)):
            h = self.layer(number, h, edge_index)
        return h
