"""Encoders that are made of layers, each of which reads no further than direct neighbours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from xtcl.graph.graph import Graph
from xtcl.nn.functional import TensorCache, normalize
from xtcl.nn.propagation import Block, EdgeIndex, Propagation, identity_of
from xtcl.relations.sparse import dense_on


class LayerwiseEncoder(nn.Module, ABC):
    """Layers over smoothed attributes, which are computed once and need no gradient.

    Such an encoder can also be computed layer by layer for some of the nodes
    (`xtcl.training.neighbor_sampling`).
    """

    smoothed_x: SmoothedAttributes

    same_kernels: ClassVar[bool] = False
    """Whether every pass over the whole graph launches the same kernels, whatever links it is
    given, so that a GPU may replay a captured step (`xtcl.cuda_graphs`). It speaks for the class
    that declares it alone: a subclass may do anything with its links, and declares its own."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Columns of the embedding."""

    @property
    @abstractmethod
    def uses_neighbours(self) -> tuple[bool, ...]:
        """For each layer whether it reads a node's neighbours, or only the node itself."""

    @property
    def num_hops(self) -> int:
        """How many links far the layers look."""
        return sum(self.uses_neighbours)

    @abstractmethod
    def layer(self, number: int, h: Tensor, links: EdgeIndex | Block) -> Tensor:
        """The output of layer `number` for the rows `h`.

        `links` are those of all nodes, or a block: `h` then has the rows of its sources, and the
        result those of its targets. A layer that does not use neighbours does not read them.
        """

    def forward(self, x: Tensor, edge_index: EdgeIndex) -> Tensor:
        """Embeddings [V, width]."""
        h: Tensor = self.smoothed_x(x, edge_index)
        for number in range(len(self.uses_neighbours)):
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

        With an x that requires a gradient they are computed in every pass.
        """

        def compute() -> Tensor:
            return normalize(self.propagation(x, links))

        if x.requires_grad and torch.is_grad_enabled():
            return compute()
        with torch.no_grad():
            return self._result.get(compute, (x, identity_of(links)))


RANDOM_FEATURES = 256
"""Columns of the random attributes of a graph without attributes."""


def encoder_inputs(graph: Graph, device: torch.device) -> tuple[Tensor, Tensor]:
    """Attributes with rows of unit length, and links in both directions.

    A graph without attributes gets random ones. Smoothed over the links they are a random
    projection of the powers of the adjacency, which shows where in the graph a node lies (Chen and
    others, "Fast and Accurate Network Embeddings via Very Sparse Random Projection", CIKM 2019).
    The seed is fixed, so the same graph always gets the same attributes.
    """
    if graph.has_attributes:
        x = dense_on(graph.attributes, device)
    else:
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(graph.num_nodes, RANDOM_FEATURES, generator=generator)
    edge_index = torch.from_numpy(np.array(graph.edge_index))
    return normalize(x.to(device)), edge_index.to(device)
