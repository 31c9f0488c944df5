"""A semantic relation: a similarity s_r(u, v) in [0, 1], computed a few rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from xtcl.relations.view import TrainingView

Rows = Callable[[Tensor], Tensor]
"""Takes node indices [b], gives their similarities to all nodes, float32 [b, V]."""


class Relation(ABC):
    """One graph signal. A subclass is a frozen dataclass whose fields are its parameters.

    `prepare` does once what all rows share and returns a function from nodes to rows. It gets a
    view of the training data, so it cannot leak what the view does not hold.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reads: ClassVar[frozenset[str]]

    @abstractmethod
    def prepare(self, view: TrainingView) -> Rows:
        """The function that computes rows of similarities for `view`."""

    def on(self, view: TrainingView) -> SimilarityRows:
        """Bind the relation to `view`, ready to be asked for rows."""
        return SimilarityRows(self.prepare(view), view.device)


@dataclass(frozen=True)
class SimilarityRows:
    """Rows of one relation, computed in tiles of a fixed height.

    A matrix product may round differently when its shape changes, and a last bit decides whether a
    pair at the threshold is above it. So every call of `compute` gets the same number of nodes, the
    last tile filled up with repetitions, and a row comes out the same whatever it is asked with.
    """

    compute: Rows
    device: torch.device

    @property
    def tile(self) -> int:
        """Rows per call of `compute`: enough to keep the device busy, few enough for its cache."""
        return 64 if self.device.type == "cpu" else 1024

    def __call__(self, nodes: Tensor) -> Tensor:
        """Similarities [b, V] of `nodes` to all nodes."""
        return torch.cat(
            [self._tile(part) for part in torch.split(nodes.to(self.device), self.tile)]
        )

    def _tile(self, nodes: Tensor) -> Tensor:
        missing = self.tile - len(nodes)
        if missing == 0:
            return self.compute(nodes)
        return self.compute(torch.cat([nodes, nodes[:1].expand(missing)]))[: len(nodes)]
