"""Where the work runs."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from xtcl.errors import UsageError


def pick_device(name: str) -> torch.device:
    """The device called `name`; "auto" is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()  # there and back, or it is of no use
    except (RuntimeError, AssertionError, NotImplementedError) as unknown:
        raise UsageError(
            f"There is no device '{name}' here; use 'auto', 'cpu', or 'cuda' where there is a GPU."
        ) from unknown
    return device


# The memory of a GPU: how much of it torch may take, and what it gives back.
#
# Torch keeps what was freed for later work, and so takes far more than is ever in use: at a
# million
# nodes 81 GB for 25. Told of a limit, it gives back what it keeps before it goes beyond.


DRIVER = 560 * 2**20
"""About what the driver and libraries take of a GPU before any work, and nobody can limit."""


_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)


@contextmanager
def limit_gpu_memory(budget: int | None, device: torch.device) -> Iterator[None]:
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


def release_cached() -> None:
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


@contextmanager
def allow_tf32() -> Iterator[None]:
    """Products of float32 with ten bits after the point (TF32) where a GPU offers them.

    Training is noisier than that by its draws alone; relations and heads stay exact.
    """
    usual = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(usual)


M_MMAP_THRESHOLD = -3  # as <malloc.h> has it


MMAP_THRESHOLD = 4 * 2**20


UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_memory(text: str | int, name: str = "memory") -> int:
    """Bytes of "4GB", "512M", "1.5 GiB" or a plain number, given as the setting `name`."""
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(text), re.I)
    if match is None or float(match[1]) == 0:
        raise UsageError(f"{name}='{text}' is not a number of bytes; write something like 4GB.")
    return int(float(match[1]) * UNITS[match[2].upper()])


def set_mmap_threshold() -> None:
    """Ask glibc, from now on, for memory of its own for every array of 4 MB and more.

    It is given back as soon as the array is freed. Left alone, arrays of up to 32 MB share a heap
    whose holes larger ones then fall into: the peak of a fit in mini-batches was a third higher,
    at the same seconds.
    """
    if sys.platform == "linux":
        settle = getattr(ctypes.CDLL(None), "mallopt", None)
        if settle is not None:
            settle(M_MMAP_THRESHOLD, MMAP_THRESHOLD)


def trim_heap() -> None:
    """Give what was freed back to the system, where it is glibc that keeps it.

    It keeps freed arrays below 32 MB for later ones of that size. A stage of larger arrays gets
    fresh memory beside them: on Cora that was a third of the peak.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
