"""Figure: the time to learn which nodes are alike, against the size of the graph."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from scipy import stats

from xtcl.errors import DataError, UsageError
from xtcl.graph.datasets.synthetic import random_graph
from xtcl.lab.experiments.drawing import Curves, conditions, curves_of, curves_table, draw_curves
from xtcl.lab.experiments.experiment import (
    Context,
    Experiment,
    Plain,
    Record,
    Run,
    Selection,
    select_names,
)
from xtcl.lab.methods.naive_xgboost import NaiveXGBoost
from xtcl.relations.view import TrainingView
from xtcl.report.charts import DASH, PALETTE, page, picture, table
from xtcl.sampling.folds import Fold
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks import make_task
from xtcl.tasks.training_data import TrainingData

SYSTEMS = ("xgsampler", "naive-xgboost")


SIZES = (1000, 2000, 4000, 8000, 16000)


QUICK_SIZES = (1000, 2000, 4000)


REPEATS = 3


LABELLED = 0.5
"""The paper does not say how many nodes have labels; with half, pairs grow as the square of V."""


class TrainingTime(Experiment):
    """XGSampler and Naive XGBoost on random graphs with 2V links, labels and attributes random.

    Both get the same folds of the same pairs, and their time includes the relations. What the
    system then does with the scores (positives, training) is the same for both and not timed. A
    first fit on a small graph, thrown away, warms up libraries and the device.
    """

    name: ClassVar[str] = "time"
    title: ClassVar[str] = "Seconds to learn which nodes are alike"

    def runs(self, selection: Selection) -> list[Run]:
        """Small graphs first."""
        select_names("data set", selection.datasets, ("random",))
        return [
            self.run(size, system, repeat)
            for size in (QUICK_SIZES if selection.quick else SIZES)
            for repeat in selection.seeds(REPEATS)
            for system in select_names("method", selection.methods, SYSTEMS)
        ]

    def run(self, size: int, system: str, repeat: int) -> Run:
        """One fit."""

        def measure(context: Context) -> Plain:
            fit_stumps_on_pairs(system, *pairs_of(200, repeat, context.device))
            view, folds = pairs_of(size, repeat, context.device)
            start = time.perf_counter()
            fit_stumps_on_pairs(system, view, folds)
            return {"seconds": round(time.perf_counter() - start, 4)}

        return Run({"size": size, "system": system, "repeat": repeat}, measure)


def pairs_of(size: int, seed: int, device: torch.device) -> tuple[TrainingView, list[Fold]]:
    """What both systems learn from."""
    graph = random_graph(size, seed=seed)
    known = np.random.default_rng([seed, 30]).random(size) < LABELLED
    labels = np.where(known, TrainingData(graph).labels, -1)
    view = TrainingView.of(graph.with_labels(labels), known, device)
    return view, make_task("nodes").folds(view, 0, np.random.default_rng(seed))


def fit_stumps_on_pairs(system: str, view: TrainingView, folds: list[Fold]) -> None:
    """Fit one system, to the end of what its device was asked for."""
    if system == "xgsampler":
        XGSampler().fit_folds(view, folds)
    else:
        NaiveXGBoost().fit(view, folds)
    if view.device.type == "cuda":
        torch.cuda.synchronize(view.device)


_TITLES = {"xgsampler": "XGSampler", "naive-xgboost": "Naive XGBoost"}


def draw_training_time(experiment: TrainingTime, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    by_name = curves_of(records, "size", lambda r: float(r.found["seconds"]), by="system")
    curves = {_TITLES[name]: by_name[name] for name in SYSTEMS if name in by_name}
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


@dataclass(frozen=True)
class Growth:
    r"""A power law: time = `factor` * size ** `exponent`. The interval is `low` to `high`.

    .. math:: t = c \, n^b \quad\Longleftrightarrow\quad \log t = \log c + b \log n

    The line is fitted by least squares, so relative errors have the same weight at all sizes. The
    interval is Student's, from the scatter about the line. It assumes that errors are independent
    and that the law holds over the whole range. Where fixed costs dominate small sizes, the
    exponent is too low.
    """

    exponent: float
    low: float
    high: float
    factor: float
    confidence: float

    def at(self, size: float) -> float:
        """The time of the fitted law at a size."""
        return float(self.factor * size**self.exponent)


def fit_growth(
    sizes: Sequence[float], times: Sequence[float], *, confidence: float = 0.95
) -> Growth:
    """The power law through measurements; a size may be measured several times."""
    if not 0 < confidence < 1:
        raise UsageError(f"confidence={confidence} must be between 0 and 1, such as 0.95.")
    n, t = np.asarray(sizes, float), np.asarray(times, float)
    if n.shape != t.shape or n.ndim != 1 or len(n) < 3 or len(np.unique(n)) < 2:
        raise DataError(
            "Growth needs three measurements or more, of two sizes or more, each with its time; "
            f"got {n.size} sizes ({len(np.unique(n))} different) and {t.size} times."
        )
    if not (np.isfinite(n) & (n > 0)).all() or not (np.isfinite(t) & (t > 0)).all():
        raise DataError("Growth needs sizes and times that are finite and greater than 0.")
    line = stats.linregress(np.log(n), np.log(t))
    exponent = float(line.slope)
    # Equal times have no scatter: linregress gives 0 / 0.
    half = float(np.nan_to_num(line.stderr) * stats.t.ppf((1 + confidence) / 2, len(n) - 2))
    factor = float(np.exp(line.intercept))
    return Growth(exponent, exponent - half, exponent + half, factor, confidence)
