"""Whether kernels can be used."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch


@cache
def kernels_run_on(device: torch.device) -> bool:
    """Triton, which PyTorch brings along for its own GPU builds, is what they are written in."""
    return device.type == "cuda" and find_spec("triton") is not None
