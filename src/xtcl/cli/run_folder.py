"""The --out folder of `xtcl fit`: what may be written to it, and the figures it holds already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from xtcl.errors import DataError, UsageError

CHECKPOINTS = "checkpoint"


def is_finished(out: Path) -> bool:
    """Whether `out` is a complete run of ours."""
    return (out / "model" / "model.json").is_file() and (out / "metrics.json").is_file()


def is_interrupted(out: Path) -> bool:
    """Whether `out` holds the intermediate results of a fit of ours."""
    return (out / CHECKPOINTS / "identity.json").is_file()


def check_out(out: Path, resume: bool) -> None:
    """Refuse a place that holds anything but our own work; writes nothing."""
    there = next((place for place in (out, *out.parents) if place.exists()), out)
    if there.exists() and not there.is_dir():
        raise UsageError(f"--out '{out}' cannot be a folder: '{there}' is a file; choose another.")
    if is_finished(out):
        if not resume:
            raise UsageError(f"'{out}' holds a finished run; choose another --out, or remove it.")
    elif there == out and any(out.iterdir()) and not is_interrupted(out):
        raise UsageError(
            f"'{out}' holds files that `xtcl fit` did not write, and they are left as they are; "
            "choose a new or an empty folder for --out."
        )


def finished_metrics(out: Path, identity: str) -> dict[str, Any]:
    """The figures of the finished run in `out`; refuses those of another fit than `identity`."""
    path = out / "metrics.json"
    metrics = read_metrics(out)
    if not {"metric", "compared"} <= metrics.keys():
        raise DataError(f"'{path}' was not written by `xtcl fit`, or is damaged: remove '{out}'.")
    if metrics.get("identity") != identity:
        raise UsageError(
            f"'{out}' holds the finished run of another graph, seed or setting; choose another "
            "--out, or remove that folder."
        )
    return metrics


def read_metrics(out: Path) -> dict[str, Any]:
    """What the run in `out` has of figures; nothing where the file is not ours."""
    try:
        metrics = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return metrics if isinstance(metrics, dict) else {}
