"""Where lists are made by what is in here."""

from __future__ import annotations

import torch

DEVICES = frozenset({"cuda"})
"""Types of devices. Torch would do it on a CPU, too, but not as quickly as NumPy and SciPy."""


def explores_on(device: torch.device) -> bool:
    """Whether graphs that lie on `device` are searched there."""
    return device.type in DEVICES
