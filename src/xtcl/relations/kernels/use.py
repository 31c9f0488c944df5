"""Whether kernels can be used."""

from __future__ import annotations

import warnings
from functools import cache
from importlib.util import find_spec

import torch


@cache
def kernels_run_on(device: torch.device) -> bool:
    """Whether Triton, which PyTorch brings along for its own GPU builds, can compile them.

    It wants a C compiler and Python's headers, which small images do not have.
    """
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    from xtcl.relations.kernels.row_levels import row_levels

    try:
        row_levels(torch.zeros(1, 2, device=device), torch.zeros(1, device=device).long(), [1])
    except Exception as reason:
        warnings.warn(
            f"Relations take longer on this GPU than they could: Triton says '{reason}'. "
            "It needs a C compiler and Python's headers.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True
