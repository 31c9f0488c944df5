"""Encoders that are made of layers, each of which looks no further than the next link."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor, nn

from xtcl.graph.graph import Graph
from xtcl.nn.functional import TensorCache, normalize
from xtcl.nn.propagation import Block, EdgeIndex, Propagation, identity_of
from xtcl.relations.sparse import dense_on


class LayerwiseEncoder(nn.Module, ABC):
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


class SmoothedAttributes(nn.Module):
    """Attributes after `hops` steps of `Propagation`, each row of unit length."""

    def __init__(self, hops: int, restart: float = 0.0) -> None:
        super().__init__()
        self.propagation = Propagation(hops, restart)
        self._result: TensorCache[Tensor] = TensorCache()

    def forward(self, x: Tensor, links: EdgeIndex) -> Tensor:
        """The smoothed rows [V, D]; computed again only when x or the links change.

        With x that wants a gradient the result belongs to one pass, and is computed in each.
        """

        def compute() -> Tensor:
            return normalize(self.propagation(x, links))

        if x.requires_grad and torch.is_grad_enabled():
            return compute()
        with torch.no_grad():
            return self._result.get(compute, (x, identity_of(links)))


RANDOM_FEATURES = 256


def encoder_inputs(graph: Graph, device: torch.device) -> tuple[Tensor, Tensor]:
    """Attributes with rows of unit length, and links in both directions.

    A graph without attributes gets random ones. Smoothed over the links they tell where a node
    lies: a random projection of the powers of the adjacency (Chen and others, "Fast and Accurate
    Network Embeddings via Very Sparse Random Projection", CIKM 2019). Their seed is fixed, so that
    the same graph always gets the same.
    """
    if graph.has_attributes:
        x = dense_on(graph.attributes, device)
    else:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(graph.num_nodes, RANDOM_FEATURES, generator=generator)
    edge_index = torch.from_numpy(np.array(graph.edge_index))
    return normalize(x.to(device)), edge_index.to(device)
