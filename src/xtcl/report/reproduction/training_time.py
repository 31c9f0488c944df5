"""Training time against size as a page and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xtcl.errors import DataError
from xtcl.experiments.growth import Growth, fit_growth
from xtcl.experiments.reproduction.experiment import Record
from xtcl.experiments.reproduction.training_time import SYSTEMS, TrainingTime
from xtcl.report.markdown import DASH, page, table
from xtcl.report.pictures import PALETTE, picture
from xtcl.report.reproduction.conditions import conditions
from xtcl.report.reproduction.curves import Curves, curves_of, curves_table, draw_curves

TITLES = {"xgsampler": "XGSampler", "naive-xgboost": "Naive XGBoost"}


def draw_training_time(experiment: TrainingTime, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    by_name = curves_of(records, "size", lambda r: float(r.found["seconds"]), by="system")
    curves = {TITLES[name]: by_name[name] for name in SYSTEMS if name in by_name}
    laws = {name: law_of(line) for name, line in curves.items()}
    with picture(folder, experiment.name, 6.5, 4.5) as figure:
        axes = figure.subplots()
        draw_curves(axes, curves)
        for place, (name, law) in enumerate(laws.items()):  # in the colours of the curves
            if law is not None:
                ends = [min(curves[name]), max(curves[name])]
                axes.plot(ends, [law.at(end) for end in ends], ":", color=PALETTE[1 + place])
        axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="seconds")
        axes.set_title(experiment.title)
        axes.legend(frameon=False)
    parts = [
        f"# {experiment.title}",
        "Random graphs with 2V links, labels and attributes at random, half of the nodes labelled; "
        "seconds, mean ± standard error over graphs. The same pairs for both, relations included.",
        curves_table(curves, "nodes"),
        "Growth as a power of the number of nodes, with its 95 % interval:",
        table(["", "exponent"], [[name, exponent(law)] for name, law in laws.items()]),
        saved(curves),
        conditions(records),
        f"![{experiment.title}]({experiment.name}.svg)",
    ]
    return page(parts)


def law_of(line: dict[float, list[float]]) -> Growth | None:
    """The power law through a line, where it has points enough."""
    points = [(size, seconds) for size, times in line.items() for seconds in times]
    try:
        return fit_growth(*zip(*points, strict=True))
    except DataError:
        return None


def exponent(law: Growth | None) -> str:
    """In words."""
    return DASH if law is None else f"{law.exponent:.2f} ({law.low:.2f} to {law.high:.2f})"


def saved(curves: Curves) -> str:
    """How much less time ours takes, averaged over the sizes that both have."""
    if len(curves) < 2:
        return ""
    ours, theirs = curves.values()
    sizes = sorted(ours.keys() & theirs.keys())
    if not sizes:
        return ""
    less = 100 * np.mean([1 - np.mean(ours[size]) / np.mean(theirs[size]) for size in sizes])
    return (
        f"XGSampler takes {less:.0f} % less time, averaged over sizes (the paper: 60 % less, on a "
        "GPU)."
    )
