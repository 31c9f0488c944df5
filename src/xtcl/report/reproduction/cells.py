"""The figures of systems on data sets, gathered from single runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import ttest_rel

from xtcl.experiments.reproduction.experiment import Record
from xtcl.experiments.standard_error import standard_error

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Cell:
    """The figure of every seed of one system on one data set, and the seconds of its fit.

    Seconds are there for runs on the usual machine only: those of another do not compare. Runs on
    the same kind of GPU count as one machine, whatever the number of threads beside it.
    """

    figures: dict[int, float]
    seconds: dict[int, float]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return float(np.mean(list(self.figures.values())))

    @property
    def error(self) -> float | None:
        """The standard error of the mean; none of a single run."""
        return standard_error(list(self.figures.values()))


Cells = dict[tuple[str, str], Cell]
"""By data set and method."""


def gather(records: Sequence[Record]) -> Cells:
    """The cells of a comparison."""
    cells: Cells = {}
    machines = Counter(_machine(record) for record in records)
    usual = machines.most_common(1)[0][0] if machines else None
    for record in records:
        place = record.what["dataset"], record.what["method"]
        cell = cells.setdefault(place, Cell({}, {}))
        cell.figures[record.what["seed"]] = record.found["figure"]
        if _machine(record) == usual:
            cell.seconds[record.what["seed"]] = record.found["seconds"]
    return cells


def _machine(record: Record) -> str:
    hardware = dict(record.hardware)
    if hardware.get("gpu", "none") != "none":
        hardware.pop("threads", None)
    return json.dumps(hardware, sort_keys=True)


def ranking(cells: Cells, dataset: str) -> list[str]:
    """The methods of a data set, the best first; those that lack a split are not ranked.

    One split may be easier than another, so means over different ones do not compare.
    """
    here = {method: cell for (where, method), cell in cells.items() if where == dataset}
    splits = {seed for cell in here.values() for seed in cell.figures}
    means = {method: cell.mean for method, cell in here.items() if set(cell.figures) == splits}
    return sorted(means, key=lambda method: -means[method])


def p_value(first: Cell, second: Cell) -> float | None:
    """Of a paired t-test over the splits that both have; none with fewer than two of them.

    Two-sided. Splits of one graph overlap, so their differences are not independent and the value
    is smaller than it should be (Nadeau and Bengio, "Inference for the Generalization Error",
    2003): it is what the paper reports, and to be read with that in mind.
    """
    both = sorted(first.figures.keys() & second.figures.keys())
    if len(both) < 2:
        return None
    ours, theirs = ([cell.figures[seed] for seed in both] for cell in (first, second))
    if np.ptp(np.subtract(ours, theirs)) == 0:
        return 1.0 if ours == theirs else 0.0  # the test divides by the spread
    return float(ttest_rel(ours, theirs).pvalue)
