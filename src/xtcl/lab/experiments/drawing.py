"""Pages and pictures of the paper's experiments, drawn from the records of their runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xtcl.baselines import METHODS
from xtcl.lab.experiments.experiment import Record
from xtcl.model_selection.evaluation import standard_error
from xtcl.report.charts import DASH, OURS, PALETTE, spread_labels, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def conditions(records: Sequence[Record]) -> str:
    """Which machines and which code made the runs, as a list; nothing of runs that do not say."""
    made = Counter(_made_by(record) for record in records if record.versions and record.hardware)
    return "\n".join(
        f"- {count} {'run' if count == 1 else 'runs'}: {text}" for text, count in made.items()
    )


def _made_by(record: Record) -> str:
    hardware, versions = record.hardware, record.versions
    gpu = "no GPU" if hardware["gpu"] == "none" else hardware["gpu"]
    processes = hardware.get("processes", 1)
    shared = f", {processes} runs at a time" if processes > 1 else ""
    return (
        f"{gpu}; {hardware['cpu']}, {hardware['threads']} thread(s){shared}; "
        f"xtcl {versions['xtcl']} (code {versions['code']}), torch {versions['torch']}"
    )


Value = Callable[[Record], float]


Curves = dict[str, dict[float, list[float]]]
"""By system and place on the axis, the values of all runs there."""


def curves_of(records: Sequence[Record], axis: str, value: Value, by: str = "method") -> Curves:
    """Gather runs; systems stay in the order in which they come."""
    curves: Curves = {}
    for record in records:
        line = curves.setdefault(record.what[by], {})
        line.setdefault(record.what[axis], []).append(value(record))
    return curves


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and its standard error where there is more than one value."""
    return float(np.mean(values)), standard_error(values)


def curves_table(curves: Curves, axis: str) -> str:
    """A row for each place on the axis, a column for each system."""
    places = sorted({place for line in curves.values() for place in line})

    def cell(line: dict[float, list[float]], place: float) -> str:
        return spread_labels(*mean_and_error(line[place])) if place in line else DASH

    return table(
        [axis, *(title_of(name) for name in curves)],
        [[f"{place:g}", *(cell(line, place) for line in curves.values())] for place in places],
    )


def draw_curves(axes: Axes, curves: Curves) -> None:
    """The lines, in the package's colours: XTCL has the same as in the tables."""
    colours = iter(PALETTE[1:] * len(curves))
    for name, line in curves.items():
        colour = OURS if name.startswith("xtcl") else next(colours)
        x = sorted(line)
        means, errors = zip(*(mean_and_error(line[at]) for at in x), strict=True)
        axes.errorbar(
            x,
            means,
            yerr=[error or 0.0 for error in errors],
            marker="o",
            markersize=4,
            linewidth=1.5,
            color=colour,
            label=title_of(name),
        )
    axes.grid(linewidth=0.5, alpha=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def title_of(name: str) -> str:
    """How a system is called in tables and figures."""
    return METHODS[name].title if name in METHODS else name
