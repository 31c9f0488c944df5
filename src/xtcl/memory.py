"""Amounts of memory, as users write them, and memory that is given back."""

from __future__ import annotations

import ctypes
import re
import sys

from xtcl.errors import UsageError

M_MMAP_THRESHOLD = -3  # as <malloc.h> has it
APART = 4 * 2**20
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_memory(text: str | int, name: str = "memory") -> int:
    """Bytes of "4GB", "512M", "1.5 GiB" or a plain number, given as the setting `name`."""
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(text), re.I)
    if match is None or float(match[1]) == 0:
        raise UsageError(f"{name}='{text}' is not a number of bytes; write something like 4GB.")
    return int(float(match[1]) * UNITS[match[2].upper()])


def keep_large_arrays_apart() -> None:
    """Ask glibc, from now on, for memory of its own for every array of 4 MB and more.

    It is given back as soon as the array is freed. Left alone, arrays of up to 32 MB share a heap
    whose holes larger ones then fall into: the peak of a fit in mini-batches was a third higher,
    at the same seconds.
    """
    if sys.platform == "linux":
        settle = getattr(ctypes.CDLL(None), "mallopt", None)
        if settle is not None:
            settle(M_MMAP_THRESHOLD, APART)


def give_back_freed() -> None:
    """Give what was freed back to the system, where it is glibc that keeps it.

    It keeps freed arrays below 32 MB for later ones of that size. A stage of larger arrays gets
    fresh memory beside them: on Cora that was a third of the peak.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)
