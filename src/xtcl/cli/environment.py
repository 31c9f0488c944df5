"""What `xtcl doctor` looks at."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

REQUIRED = (
    "torch",
    "torch_geometric",
    "numpy",
    "scipy",
    "scikit-learn",
    "safetensors",
    "pyarrow",
    "typer",
    "rich",
    "matplotlib",
)
OPTIONAL = {"networkx": "NetworkX graphs", "xgboost": "benchmarks"}


def describe_environment(data: Path | None) -> dict[str, dict[str, str]]:
    """Versions, devices, memory and data sets, by section."""
    import torch

    import xtcl
    from xtcl.graph.datasets import describe_datasets

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    there = [info.name for info in describe_datasets(data) if info.available]
    return {
        "versions": {
            "xtcl": xtcl.__version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in REQUIRED},
        },
        "optional": {name: f"{_version(name)} (for {use})" for name, use in OPTIONAL.items()},
        "devices": {
            "cpu cores": str(os.cpu_count()),
            "torch threads": str(torch.get_num_threads()),
            "memory": _memory(),
            "gpu": ", ".join(gpus) or "none",
        },
        "data": {
            "folder": str(data) if data else "none (set XTCL_DATA or give --data)",
            "data sets here": ", ".join(there),
        },
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"missing: pip install {name}"


def _memory() -> str:
    if not hasattr(os, "sysconf"):
        return "unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GB"
