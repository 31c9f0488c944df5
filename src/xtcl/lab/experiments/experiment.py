"""What a table or figure of the paper is made of: independent runs."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch

from xtcl.errors import DataError, UsageError, XTCLError, known_names
from xtcl.graph.datasets.load import load_dataset
from xtcl.graph.graph import Graph
from xtcl.lab.experiments.provenance import provenance
from xtcl.lab.experiments.records import RecordFile
from xtcl.progress import Progress

Plain = dict[str, Any]
"""Names and values that JSON knows."""


@dataclass(frozen=True)
class Selection:
    """How much of an experiment is wanted; what is None is as the experiment has it.

    `quick` makes it small: minutes on two cores, with the same code and the same protocol.
    """

    datasets: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    splits: int | None = None
    quick: bool = False
    seed: int = 0

    def seeds(self, usual: int, quick: int | None = None) -> range:
        """The seeds of the splits: as many as wanted, or usual, from the first on."""
        number = quick if self.quick and quick is not None else usual
        return range(self.seed, self.seed + (self.splits or number))


class MissingDatasetError(DataError):
    """A data set could not be read, so no run on it can be made."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(why)
        self.name = name


@dataclass
class Context:
    """Where runs are made: the device, the folder of data sets, and a callback for progress.

    Graphs are cached, because many runs share one; so is the reason why one could not be read.
    """

    device: torch.device
    data: Path | None = None
    progress: Progress = field(default_factory=Progress)
    _graphs: dict[str, Graph] = field(default_factory=dict)
    _missing: dict[str, str] = field(default_factory=dict)

    def graph(self, name: str) -> Graph:
        """A data set by its name; one that is missing is looked for, and downloaded, only once."""
        if name in self._missing:
            raise MissingDatasetError(name, self._missing[name])
        if name not in self._graphs:
            try:
                self._graphs[name] = load_dataset(name, self.data)
            except DataError as error:
                self._missing[name] = str(error)
                raise MissingDatasetError(name, str(error)) from error
        return self._graphs[name]


@dataclass(frozen=True)
class Run:
    """One run: what is measured, as plain values, and how. What it finds are plain values too."""

    what: Plain
    measure: Callable[[Context], Plain]

    @property
    def key(self) -> str:
        """The name of this run in the file of records: the values of `what`, in order."""
        return "-".join(str(value) for value in self.what.values())


@dataclass(frozen=True)
class Record:
    """A run that was made: what, what was found, and under which conditions."""

    what: Plain
    found: Plain
    seconds: float
    versions: Plain
    hardware: Plain


class Experiment(ABC):
    """A table or figure of the paper."""

    name: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def runs(self, selection: Selection) -> list[Run]:
        """Every run of the selection, the most informative ones first."""


def select_datasets(selection: Selection, usual: Sequence[str]) -> list[str]:
    """The data sets of a selection; a quick one has Cora by default, which is always there."""
    quick = ("cora",) if selection.quick else None
    return select_names("data set", selection.datasets or quick, usual)


def select_names(kind: str, wanted: Sequence[str] | None, usual: Sequence[str]) -> list[str]:
    """The usual ones, or those of them that are wanted, in the usual order."""
    if wanted is None:
        return list(usual)
    if not usual:
        raise UsageError(f"There is no {kind} to choose here; leave that option out.")
    for name in wanted:
        if name not in usual:
            raise UsageError(f"There is no {kind} '{name}' here.{known_names(name, usual)}")
    return [name for name in usual if name in wanted]


Log = Callable[[str], None]


def run_missing(runs: Sequence[Run], file: RecordFile, context: Context, log: Log) -> list[Record]:
    """The records of all runs; those that `file` does not hold yet are made.

    A run that cannot be made (a system that refuses a graph, or a GPU that is too small) is
    reported and left out: the others are worth having. A data set that is missing is reported
    once, not for every run on it. Records made by other code are kept; each has the digest of the
    code that made it.
    """
    kept = read_records(runs, file)
    missing = [m for m in runs if m.key not in kept]
    if kept:
        log(f"{len(kept)} of {len(runs)} runs are there already.")
    try:
        kept |= _run(missing, file, context, log)
    finally:
        file.fold()
    return [kept[m.key] for m in runs if m.key in kept]


def _run(missing: Sequence[Run], file: RecordFile, context: Context, log: Log) -> dict[str, Record]:
    """The records of the runs that could be made; each is in the file as soon as it is made."""
    made: dict[str, Record] = {}
    missed: set[str] = set()
    began = time.perf_counter()
    for number, run in enumerate(missing, start=1):
        start = time.perf_counter()
        try:
            found = run.measure(context)
        except MissingDatasetError as absent:
            if absent.name not in missed:
                log(f"All runs on {absent.name} are left out: {absent}")
            missed.add(absent.name)
            continue
        except (XTCLError, torch.OutOfMemoryError) as refused:
            log(f"{run.key} was left out: {refused}")
            continue
        seconds = time.perf_counter() - start
        record = Record(run.what, found, round(seconds, 3), **provenance(context.device))
        file.append(run.key, asdict(record))
        made[run.key] = record
        left = (time.perf_counter() - began) / number * (len(missing) - number)
        log(
            f"{number} of {len(missing)}: {run.key} in {spell_out(seconds)}"
            + (f"; about {spell_out(left)} to go" if left else "")
        )
    return made


def read_records(runs: Sequence[Run], file: RecordFile) -> dict[str, Record]:
    """What the file holds of the runs, by their keys; a damaged record is left out."""
    stored = file.read()
    found: dict[str, Record] = {}
    for run in runs:
        try:
            record = Record(**stored[run.key])
        except (KeyError, TypeError):
            continue
        if record.what == run.what:
            found[run.key] = record
    return found


def spell_out(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
