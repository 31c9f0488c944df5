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
    "jinja2",
    "matplotlib",
)
OPTIONAL = {
    "networkx": "NetworkX graphs",
    "pandas": "frames as tables",
    "polars": "frames as tables",
    "faiss-cpu": "--index-past",
    "optuna": "xtcl tune",
    "xgboost": "benchmarks",
}


def describe_environment(data: Path | None) -> dict[str, dict[str, str]]:
    """Versions, devices, memory and data sets, by section."""
    import torch

    import xtcl

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
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
        "data": _data(data),
    }


def _data(data: Path | None) -> dict[str, str]:
    """The data folder, or what is wrong with it, and the data sets that need no download."""
    from xtcl.errors import DataError
    from xtcl.graph.datasets import describe_datasets

    folder = str(data) if data else "none (set XTCL_DATA or give --data)"
    try:
        found = describe_datasets(data)
    except DataError as missing:
        folder = str(missing)
        found = describe_datasets(Path(__file__).parent)  # what is packaged or in the cache
    return {
        "folder": folder,
        "data sets here": ", ".join(info.name for info in found if info.available),
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
