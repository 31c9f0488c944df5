"""Neighbours drawn by `pyg_lib`, which not every machine has."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor


@cache
def pyg_sample() -> Callable[..., Any] | None:
    """`pyg_lib.sampler.neighbor_sample`, or None where it cannot be imported.

    One that was built for another torch is there, but cannot be loaded: an OSError.
    """
    try:
        sample: Callable[..., Any] = importlib.import_module("pyg_lib.sampler").neighbor_sample
    except (ImportError, OSError):
        return None
    return sample


def pyg_hop(
    sample: Callable[..., Any],
    start: Tensor,
    column: Tensor,
    targets: Tensor,
    most: int,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """At most `most` neighbours of `targets`: nodes, targets first, and links between places.

    pyg_lib draws from torch's own random state, which is seeded from `generator` meanwhile.
    """
    with torch.random.fork_rng([]):
        seed = int(torch.randint(2**31, (), generator=generator))
        torch.default_generator.manual_seed(seed)
        # With csc=True links point to the nodes that drew them; they come in the order of those.
        source, target, nodes = sample(start, column, targets, [most], csc=True)[:3]
    return nodes, torch.stack([source, target])
