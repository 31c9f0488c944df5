"""The device of a fit, and its memory."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import torch

from xtcl.errors import UsageError


def pick_device(name: str) -> torch.device:
    """The device called `name`; "auto" is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()  # some devices can be named, but not used
    except (RuntimeError, AssertionError, NotImplementedError) as unknown:
        raise UsageError(
            f"There is no device '{name}' here; use 'auto', 'cpu', or 'cuda' where there is a GPU."
        ) from unknown
    return device


DRIVER_BYTES = 560 * 2**20
"""About what the driver and libraries take of a GPU before any work; it cannot be limited."""


_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)
"""Bytes that `limit_gpu_memory` leaves to torch; None without a limit."""


@contextmanager
def limit_gpu_memory(budget: int | None, device: torch.device) -> Iterator[None]:
    """Let the block take no more than `budget` bytes of the GPU; beyond, torch is out of memory.

    torch keeps freed memory for later use. So it holds far more than it uses: 81 GB at a million
    nodes, with 25 GB in use. At a limit it frees what it keeps before it allocates more.
    """
    if budget is None or device.type != "cuda":
        yield
        return
    torch.cuda.empty_cache()  # memory kept from earlier work would count
    total = torch.cuda.get_device_properties(device).total_memory
    earlier = _memory_fraction(device)
    fraction = min(max(budget - DRIVER_BYTES, 0) / total, earlier)
    before = _allowed.set(int(fraction * total))
    torch.cuda.set_per_process_memory_fraction(fraction, device.index)
    try:
        yield
    finally:
        _allowed.reset(before)
        torch.cuda.set_per_process_memory_fraction(earlier, device.index)


def _memory_fraction(device: torch.device) -> float:
    """The limit that was set before; 1 where torch is too old to return it."""
    get = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    return 1.0 if get is None else float(get(device.index))


def release_cached() -> None:
    """Give freed memory back to the GPU where torch keeps more than half of what is free.

    To be called before a capture (`xtcl.cuda_graphs`): during it torch gives nothing back, and the
    memory it keeps cannot be used for it. It takes time, so nothing is done where memory is plenty.
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
    """Compute products of float32 with a mantissa of ten bits (TF32) where a GPU can.

    For training only, whose random draws add more noise than that. Relations and heads stay exact.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def memory_there(device: str) -> int:
    """Bytes of the device's memory, or of the limit of the container."""
    if device.startswith("cuda"):
        return int(torch.cuda.get_device_properties(device).total_memory)
    if not hasattr(os, "sysconf"):
        return sys.maxsize
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return there
    return min(there, int(limit)) if limit.isdigit() else there


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_memory(text: str | int, name: str = "memory") -> int:
    """The bytes in "4GB", "512M", "1.5 GiB" or a plain number; `name` is the setting in errors."""
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(text), re.I)
    if match is None or float(match[1]) == 0:
        raise UsageError(f"{name}='{text}' is not a number of bytes; write something like 4GB.")
    return int(float(match[1]) * _UNITS[match[2].upper()])


_M_MMAP_THRESHOLD = -3  # of <malloc.h>
_MMAP_THRESHOLD = 4 * 2**20


def set_mmap_threshold() -> None:
    """Let glibc map every array of 4 MB and more by itself, for the rest of the process.

    Its memory is then given back as soon as it is freed. By default arrays of up to 32 MB share a
    heap, and larger ones do not fit into its holes: the peak of a fit in mini-batches was a third
    higher, at the same seconds. For the command line: a library does not change the allocator of
    the process that uses it.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD)


def trim_heap() -> None:
    """Give memory that glibc keeps back to the system; for the command line, as above.

    glibc keeps freed arrays below 32 MB for later ones of that size. A stage of larger arrays takes
    new memory beside them: on Cora that was a third of the peak.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
