"""Levels of some nodes, kept for all who ask for them."""

from __future__ import annotations

import torch
from torch import Tensor

from xtcl.relations.level_rows import LevelRows


class KeptLevels:
    """The levels that `rows` give for `nodes`, asked for once. O(b V) memory for b nodes."""

    def __init__(self, rows: LevelRows, nodes: Tensor, num_nodes: int) -> None:
        self._rows = rows
        # Other nodes have a place that is not there.
        self._place = torch.full((num_nodes,), len(nodes), device=nodes.device)
        self._place[nodes] = torch.arange(len(nodes), device=nodes.device)
        self._levels = rows.levels(nodes)

    def levels(self, nodes: Tensor) -> Tensor:
        """Levels of some of the nodes to all nodes, uint8 [b, V]."""
        return self._levels[self._place[nodes]]

    def both(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Similarities, computed anew, and levels of some of the nodes."""
        return self._rows.both(nodes)[0], self.levels(nodes)
