"""The levels that the pairs of capped lists reach: what `nearest.levels` does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xtcl.relations.nearest.cut import TINY
from xtcl.relations.nearest.levels import list_places
from xtcl.relations.nearest.on_device.lists import Lists, floors
from xtcl.relations.nearest.rows import NearestRows


def list_levels(found: NearestRows, quantiles: Sequence[float], cap: int, num_nodes: int) -> Tensor:
    """How many quantiles each entry is above for, uint8 [m]; the lowest one's are all."""
    lists = Lists.of(found, num_nodes)
    reached = torch.ones(len(lists.key), dtype=torch.uint8, device=lists.key.device)
    for place in list_places(quantiles[1:], cap, num_nodes):
        reached += lists.value >= floors(lists, place).clamp_min(TINY)[lists.row]
    return reached
