"""Paths of two steps, counted."""

from __future__ import annotations

import torch
from torch import Tensor

from xtcl.relations.nearest.on_device.links import Links
from xtcl.relations.nearest.on_device.lists import Lists


def ends_of_two(links: Links, nodes: Tensor) -> Lists:
    """How many paths of two steps lead from `nodes` to others, int64: rows of A A.

    Cost: a sort of the paths.
    """
    shape = (len(nodes), links.num_nodes)
    row, middle = links.steps(nodes)
    path, end = links.steps(middle)
    key, count = torch.unique(row[path] * shape[1] + end, return_counts=True)
    return Lists(key, count, shape)
