"""What a fit ran on: versions and device, for whoever wants to repeat it."""

from __future__ import annotations

import importlib.metadata
import platform

import torch

PARTS = ("torch", "torch_geometric", "numpy", "scipy", "scikit-learn")
"""The packages whose versions can change a result."""


def environment(device: torch.device) -> dict[str, str]:
    """Versions by package, and the device; nothing names the host."""
    import xtcl

    gpu = f" ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else ""
    return {
        "xtcl": xtcl.__version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PARTS},
        "system": f"{platform.system()} {platform.machine()}",
        "device": f"{device.type}{gpu}",
    }
