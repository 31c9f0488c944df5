"""What a measured figure hangs on besides its seeds: versions and hardware."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import numpy as np
import scipy
import torch
import torch_geometric

import xtcl


def provenance(device: torch.device) -> dict[str, dict[str, str | int]]:
    """Versions and hardware of work on `device`, as plain values; nothing that names the host."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else "none"
    return {
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "torch": str(torch.__version__),
            "torch_geometric": torch_geometric.__version__,
            "xtcl": xtcl.__version__,
        },
        "hardware": {
            "cpu": _cpu_model(),
            "cpus": os.cpu_count() or 1,
            "threads": torch.get_num_threads(),
            "gpu": gpu,
        },
    }


def _cpu_model() -> str:
    """What Linux says of the processor, or else its architecture."""
    described = Path("/proc/cpuinfo")
    for line in described.read_text().splitlines() if described.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()
