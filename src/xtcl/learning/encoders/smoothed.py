"""Attributes smoothed over the links, computed once for a graph that stays the same."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from xtcl.learning.arcs import EdgeIndex, identity_of
from xtcl.learning.encoders.propagation import Propagation
from xtcl.learning.encoders.remembered import Remembered
from xtcl.learning.unit_rows import unit_rows


class SmoothedAttributes(nn.Module):
    """Attributes after `hops` steps of `Propagation`, each row of unit length."""

    def __init__(self, hops: int, restart: float = 0.0) -> None:
        super().__init__()
        self.propagation = Propagation(hops, restart)
        self._result: Remembered[Tensor] = Remembered()

    def forward(self, x: Tensor, links: EdgeIndex) -> Tensor:
        """The smoothed rows [V, D]; computed again only when x or the links change.

        With x that wants a gradient the result belongs to one pass, and is computed in each.
        """

        def compute() -> Tensor:
            return unit_rows(self.propagation(x, links))

        if x.requires_grad and torch.is_grad_enabled():
            return compute()
        with torch.no_grad():
            return self._result.get(compute, (x, identity_of(links)))
