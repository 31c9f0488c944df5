"""Steps that pass over what their nodes need, for graphs whose full pass does not fit.

Anchors, positives and negatives of a step are the seeds of a sub-graph: their neighbours are drawn
layer by layer (`NeighbourSampler`), attributes are smoothed beforehand for all nodes. The loss of
the seeds' embeddings is the one of the full pass, and equal to it where all neighbours are taken
and nothing is dropped. Only batch norm sees other nodes: those of the sub-graph.

With s seeds and k neighbours in each of L layers, a step costs at most O(s k^L) rows, in time and
in memory, whatever the size of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from xtcl.errors import UsageError
from xtcl.learning.encoders.layered import Layered
from xtcl.learning.link_dropout import LinkDropout
from xtcl.learning.neighbour_sampler import NeighbourSampler
from xtcl.learning.shared_step import own_draws
from xtcl.learning.step_nodes import StepNodes


class MiniBatch:
    """Every step embeds its own nodes, over links that stay the same for an epoch.

    A new choice of links takes O(E) and smooths the attributes anew, which is too much for a step.
    """

    def __init__(self, x: Tensor, dropout: LinkDropout, neighbours: Sequence[int | None]) -> None:
        self.x = x
        self.dropout = dropout
        self.neighbours = tuple(neighbours)
        self.links = dropout.edge_index
        self.sampler = NeighbourSampler(self.links, len(x))

    def next_epoch(self, generator: torch.Generator) -> None:
        """An epoch begins."""
        links = self.dropout.draw(generator)
        if links is not self.links:
            self.links, self.sampler = links, NeighbourSampler(links, len(self.x))

    def next_step(self, generator: torch.Generator) -> None:
        """A step begins, before its nodes are drawn."""

    def embed(
        self, encoder: nn.Module, step: StepNodes, generator: torch.Generator
    ) -> tuple[Tensor, StepNodes]:
        """Embeddings of the step's nodes, and those nodes as their rows."""
        generator = own_draws(generator)
        seeds, places = step.apart()
        neighbours = self._within_reach(encoder)
        if not isinstance(encoder, Layered):
            nodes, links = self.sampler.subgraph(seeds, neighbours, generator)
            return encoder(self.x[nodes], links)[: len(seeds)], places
        nearest = iter(neighbours)
        draws = [next(nearest) if looks else 0 for looks in reversed(encoder.looks)]
        blocks = self.sampler.blocks(seeds, draws, generator)[::-1]
        h = encoder.smoothed(self.x, self.links)[blocks[0].nodes]
        for number, block in enumerate(blocks):
            h = encoder.layer(number, h, block)
        return h, places

    def _within_reach(self, encoder: nn.Module) -> tuple[int | None, ...]:
        """The numbers of neighbours that an encoder uses; one of unknown reach uses all."""
        reach = getattr(encoder, "reach", len(self.neighbours))
        if reach > len(self.neighbours):
            raise UsageError(
                f"neighbours={self.neighbours} has {len(self.neighbours)} entries and the encoder "
                f"looks {reach} links far: give a number for each, or None for all neighbours."
            )
        return self.neighbours[:reach]
