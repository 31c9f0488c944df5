"""What a measured figure depends on besides its seeds: code, versions and hardware."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
import torch_geometric

import xtcl
from xtcl.baselines.method import Method
from xtcl.code_digest import source_digest
from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.lab.experiments.records import RecordFile
from xtcl.model_selection.evaluation import Evaluation, make_split, score_method
from xtcl.progress import Progress

_AFTER_FIGURES = ("cli", "inference", "integrations", "report", "runs")
"""Packages that no figure depends on: they come after it. All other code may decide one."""


def provenance(device: torch.device) -> dict[str, dict[str, str | int]]:
    """Code, versions and hardware of work on `device`, as plain values; nothing names the host."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else "none"
    return {
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "torch": str(torch.__version__),
            "torch_geometric": torch_geometric.__version__,
            "xtcl": xtcl.__version__,
            "code": CODE,
        },
        "hardware": {
            "cpu": _cpu_model(),
            "cpus": os.cpu_count() or 1,
            "threads": torch.get_num_threads(),
            "gpu": gpu,
        },
    }


def figures_digest(home: Path) -> str:
    """A hash of the code in the folder of xtcl that decides figures, the same under every Python.

    Comments, docstrings and the names of files are no part of it.
    """
    paths = ((path, path.relative_to(home).parts) for path in home.rglob("*.py"))
    return source_digest(
        path
        for path, parts in paths
        if parts[0].removesuffix(".py") not in _AFTER_FIGURES and parts[:2] != ("lab", "scripts")
    )


def _cpu_model() -> str:
    """What Linux says of the processor, or else its architecture."""
    described = Path("/proc/cpuinfo")
    for line in described.read_text().splitlines() if described.exists() else ():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


CODE = figures_digest(Path(xtcl.__file__).parent)
"""Read at once: files that are edited while a batch runs are not the code that it runs."""


OnSplit = Callable[[int, float, float], None]
"""Called with the seed, the figure in percent and the seconds of a split that is done."""


def evaluate_into(
    file: RecordFile,
    key: str,
    graph: Graph,
    task: str,
    method: Method,
    *,
    splits: int,
    seed: int = 0,
    device: torch.device,
    conditions: Mapping[str, Any],
    on_split: OnSplit = lambda seed, figure, seconds: None,
) -> None:
    """Fit and score `method` on those splits from `seed` on that are not in `file` yet.

    The record `key` is what `xtcl evaluate --json` prints, without `metrics`, with the `conditions`
    of the runs as plain values. It is stored after every split. A record of other conditions is
    refused, because its figures are not of one kind with new ones.
    """
    plain = json.loads(json.dumps(dict(conditions)))
    names = {"dataset": graph.name, "task": task, "method": method.name}
    done = _finished(file, key, names | plain)
    try:
        for number in range(seed, seed + splits):
            if number in done:
                continue
            figure, seconds = score_method(
                graph,
                make_split(graph, task, number),
                method,
                seed=number,
                device=device,
                progress=Progress(),
            )
            done[number] = (round(100 * figure, 4), round(seconds, 3))
            evaluation = Evaluation.of(graph.name, task, method.name, done)
            file.append(key, evaluation.to_json() | plain)
            on_split(number, *done[number])
    finally:
        file.fold()


def _finished(
    file: RecordFile, key: str, expected: dict[str, Any]
) -> dict[int, tuple[float, float]]:
    """Figure and seconds by seed, as the file has them."""
    record = file.read().get(key)
    if record is None:
        return {}
    for name, value in expected.items():
        if record.get(name) != value:
            raise UsageError(
                f"The splits of '{key}' in {file.path} were run with another '{name}': "
                f"{record.get(name)} there, {value} now. Move the file away to run them again, "
                "or use another folder."
            )
    figures = zip(record["runs"], record["seconds"], strict=True)
    return dict(zip(record["seeds"], figures, strict=True))
