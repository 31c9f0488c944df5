"""Checkpoints of a fit that ranks share: the first keeps them, and all go on from the same."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from xtcl.learning.checkpoint import NoCheckpoints
from xtcl.ranks import ranks


class SharedCheckpoints(NoCheckpoints):
    """What the first rank reads is sent to the others, so that no disk has to be shared."""

    def __init__(self, kept: NoCheckpoints) -> None:
        self.kept = kept

    def inside(self, name: str) -> SharedCheckpoints:
        """The checkpoints of a part of the work."""
        return SharedCheckpoints(self.kept.inside(name))

    def load(self, name: str) -> dict[str, Tensor] | None:
        """What the first rank has saved as `name`, or None."""
        everyone = ranks()
        return everyone.tensors_from_first(self.kept.load(name) if everyone.first else None)

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep `tensors`, which all ranks have, once."""
        if ranks().first:
            self.kept.save(name, tensors)
