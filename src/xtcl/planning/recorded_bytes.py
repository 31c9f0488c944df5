"""Bytes that a training step takes on a GPU, which records it and keeps what it needs."""

from __future__ import annotations

from torch import nn

from xtcl.learning.full_pass import FLOAT
from xtcl.learning.trainer import TrainingSettings, always_alike
from xtcl.planning.workload import Workload

LEFT_OUT = 48
"""Bytes a link of a step that leaves links out: of both directions the end that stays, its weight,
and the three parts that is made of."""


def gpu_step_bytes(
    work: Workload, encoder: nn.Module, settings: TrainingSettings, needed: int
) -> int:
    """The same step as one of a CPU that takes `needed` bytes.

    The rows of all positives have a gradient at once, where a CPU goes column by column. A recorded
    step has memory of its own, forth and back, for as long as it is replayed. What the steps by
    hand before it had is free, but stays with the allocator: it gives nothing back to the GPU while
    it records.
    """
    width = getattr(encoder, "width", 0)
    by_hand = needed + FLOAT * settings.step_anchors(work.nodes) * work.draws * width
    if not always_alike(encoder, settings):
        return by_hand
    recorded = by_hand
    if settings.link_dropout:  # attributes are smoothed in every step, over other links
        recorded += 2 * FLOAT * work.nodes * work.columns + LEFT_OUT * work.edges
    return by_hand + recorded
