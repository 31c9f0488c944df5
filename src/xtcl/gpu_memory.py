"""The memory of a GPU: how much of it torch may take, and what it gives back.

Torch keeps what was freed for later work, and so takes far more than is ever in use: at a million
nodes 81 GB for 25. Told of a limit, it gives back what it keeps before it goes beyond.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

DRIVER = 560 * 2**20
"""About what the driver and libraries take of a GPU before any work, and nobody can limit."""

_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)


@contextmanager
def kept_within(budget: int | None, device: torch.device) -> Iterator[None]:
    """What is inside takes no more than `budget` bytes of the GPU, or it is out of memory."""
    if budget is None or device.type != "cuda":
        yield
        return
    torch.cuda.empty_cache()  # what earlier work left would count
    total = torch.cuda.get_device_properties(device).total_memory
    given = _share_given(device)
    share = min(max(budget - DRIVER, 0) / total, given)
    before = _allowed.set(int(share * total))
    torch.cuda.set_per_process_memory_fraction(share, device.index)
    try:
        yield
    finally:
        _allowed.reset(before)
        torch.cuda.set_per_process_memory_fraction(given, device.index)


def _share_given(device: torch.device) -> float:
    """The share that was set before, where torch is new enough to tell."""
    told = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    return 1.0 if told is None else float(told(device.index))


def make_room() -> None:
    """Give freed memory back to the GPU where torch keeps as much of it as half of what is free.

    While it records it gives nothing back, and what was freed before does not serve a recording.
    Giving back takes time, so where there is plenty nothing is.
    """
    reserved = torch.cuda.memory_reserved()
    free, _ = torch.cuda.mem_get_info()
    allowed = _allowed.get()
    if allowed is not None:
        free = min(free, allowed - reserved)
    if 2 * (reserved - torch.cuda.memory_allocated()) > free:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
