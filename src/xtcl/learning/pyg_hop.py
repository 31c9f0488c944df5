"""Neighbours drawn by `pyg_lib`, which not every machine has."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import torch
from torch import Tensor

PYG_LIB = find_spec("pyg_lib") is not None


def pyg_hop(
    start: Tensor, column: Tensor, targets: Tensor, most: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """At most `most` neighbours of `targets`: nodes, targets first, and links between places.

    pyg_lib draws from torch's own random state, which is seeded from `generator` for the time
    being.
    """
    sampler = importlib.import_module("pyg_lib.sampler")
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        drawn = sampler.neighbor_sample(start, column, targets, [most], csc=True)
    source, target, nodes = drawn[:3]
    return nodes, torch.stack([source, target])
