"""Measurements run one by one, each kept in a file of its own, so that a killed batch goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from xtcl.errors import XTCLError
from xtcl.experiments.provenance import provenance
from xtcl.experiments.reproduction.experiment import Bench, Measurement, MissingDatasetError, Record
from xtcl.files import atomic_path

Told = Callable[[str], None]


def run_missing(
    measurements: Sequence[Measurement], folder: Path, bench: Bench, tell: Told
) -> list[Record]:
    """The records of all measurements; those that `folder` does not hold yet are made.

    A run that cannot be made (a system that refuses a graph, or a GPU that is too small) is told
    of and left out: the others are worth having. A data set that is missing is told of once, not
    for every run on it. Records made by other code are kept; each says which code made it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = read_records(measurements, folder)
    missing = [m for m in measurements if m.key not in kept]
    if kept:
        tell(f"{len(kept)} of {len(measurements)} runs are there already.")
    missed: set[str] = set()
    began = time.perf_counter()
    for number, measurement in enumerate(missing, start=1):
        start = time.perf_counter()
        try:
            found = measurement.measure(bench)
        except MissingDatasetError as absent:
            if absent.name not in missed:
                tell(f"All runs on {absent.name} are left out: {absent}")
            missed.add(absent.name)
            continue
        except (XTCLError, torch.OutOfMemoryError) as refused:
            tell(f"{measurement.key} was left out: {refused}")
            continue
        seconds = time.perf_counter() - start
        record = Record(measurement.what, found, round(seconds, 3), **provenance(bench.device))
        with atomic_path(folder / f"{measurement.key}.json") as temporary:
            temporary.write_text(json.dumps(asdict(record), indent=1) + "\n")
        kept[measurement.key] = record
        left = (time.perf_counter() - began) / number * (len(missing) - number)
        tell(
            f"{number} of {len(missing)}: {measurement.key} in {in_words(seconds)}"
            + (f"; about {in_words(left)} to go" if left else "")
        )
    return [kept[m.key] for m in measurements if m.key in kept]


def read_records(measurements: Sequence[Measurement], folder: Path) -> dict[str, Record]:
    """What the folder holds of the measurements, by their keys."""
    found = ((each.key, read_record(folder, each)) for each in measurements)
    return {key: record for key, record in found if record is not None}


def read_record(folder: Path, measurement: Measurement) -> Record | None:
    """What the folder holds of a measurement; a damaged file holds nothing, and is made anew."""
    path = folder / f"{measurement.key}.json"
    try:
        record = Record(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return record if record.what == measurement.what else None


def in_words(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
