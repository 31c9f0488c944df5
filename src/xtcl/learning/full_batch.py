"""Steps that pass over the whole graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from xtcl.learning.arcs import EdgeIndex
from xtcl.learning.link_dropout import LinkDropout
from xtcl.learning.step_nodes import StepNodes


class FullBatch:
    """Every step embeds all nodes over links of its own, as `LinkDropout` leaves them.

    With `same_shapes`, links that are left out keep their places.
    """

    def __init__(self, x: Tensor, dropout: LinkDropout, *, same_shapes: bool = False) -> None:
        self.x = x
        self.draw = dropout.in_place(len(x)) if same_shapes else dropout.draw
        self.links: EdgeIndex = dropout.edge_index

    def next_epoch(self, generator: torch.Generator) -> None:
        """An epoch begins."""

    def next_step(self, generator: torch.Generator) -> None:
        """A step begins, before its nodes are drawn."""
        self.links = self.draw(generator)

    def embed(
        self, encoder: nn.Module, step: StepNodes, generator: torch.Generator
    ) -> tuple[Tensor, StepNodes]:
        """Embeddings, and the nodes of the step as their rows."""
        return encoder(self.x, self.links), step
