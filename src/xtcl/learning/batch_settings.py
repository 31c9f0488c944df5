"""Whether a training step passes over the whole graph, or over what its own nodes need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xtcl.errors import UsageError


@dataclass(frozen=True)
class BatchSettings:
    """How the steps are made.

    `neighbours` is None for the full graph in every step. Else a step's sub-graph grows from its
    anchors, their positives and its negatives: entry l says how many neighbours a node l links
    away draws (None: all). An encoder that looks less far leaves the last entries out; one that
    smooths attributes and no more needs none, `()`. How many seeds a step has is up to
    `TrainingSettings.anchors`. The final embedding is then made layer by
    layer, with about `block` nodes and links at a time.
    """

    neighbours: tuple[int | None, ...] | None = None
    block: int = 2**18

    def checked(self) -> BatchSettings:
        """These settings, or an error that names the one that cannot be used."""
        for most in self.neighbours or ():
            if most is not None and not most >= 1:
                raise UsageError(f"neighbours={self.neighbours} must be at least 1 each.")
        if not self.block >= 1:
            raise UsageError(f"block={self.block} must be at least 1.")
        return self

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> BatchSettings:
        """The settings whose `dataclasses.asdict` went through JSON or TOML."""
        settings = dict(stored)
        if settings.get("neighbours") is not None:
            known = (None if most == "none" else most for most in settings["neighbours"])
            settings["neighbours"] = tuple(known)
        return cls(**settings)
