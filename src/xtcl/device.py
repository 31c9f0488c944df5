"""Where the work runs."""

from __future__ import annotations

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
