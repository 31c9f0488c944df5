"""Tables 1 and 2: every system on every data set, all on the same splits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.stats import ttest_rel

from xtcl.baselines import METHODS, make_method
from xtcl.baselines.method import XTCLMethod
from xtcl.config import to_builtin
from xtcl.graph.subgraph import ego_subgraph
from xtcl.lab.experiments.drawing import conditions
from xtcl.lab.experiments.experiment import (
    Context,
    Experiment,
    Plain,
    Record,
    Run,
    Selection,
    select_datasets,
    select_names,
)
from xtcl.lab.experiments.given import published_method, what_each_is_given
from xtcl.model_selection.evaluation import make_split, score_method, standard_error
from xtcl.report.charts import DASH, FIRST, OTHER, OURS, page, picture, spread_labels, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ORDER = (
    "xtcl-gcn",
    "xtcl-gat",
    "xtcl-paper",
    "xtcl-paper-gat",
    "dgi",
    "sugrl",
    "asp",
    "polygcl",
    "gcn",
    "gat",
    "dgcn",
    "meta-pn",
    "cocos",
    "subgraph",
    "sscl",
    "sscl-all",
    "scl",
    "naive-tcl",
    "logistic",
    "propagation",
    "trees",
    "trees-neighbours",
)
"""Ours, the paper's rows in its order, its contrastive losses, the controls."""


_SPLITS = 5


_QUICK_SPLITS = 2


QUICK_NODES = 500
"""Of the data set, for a quick table: some systems take time that grows like the square of them."""


class Comparison(Experiment):
    """Fits and scores each system on each split."""

    task: ClassVar[str]

    def systems(self) -> list[str]:
        """The registered systems that know the task."""
        return [name for name in ORDER if self.task in METHODS[name].tasks]

    def runs(self, selection: Selection) -> list[Run]:
        """Split by split, so that a batch that is cut short has all systems on fewer splits.

        Quick: on the part of a data set around its best linked node.
        """
        for method in selection.methods or ():
            if method in METHODS:
                make_method(method).check_task(self.task)
        methods = select_names("method", selection.methods, self.systems())
        return [
            self.run(dataset, method, seed, QUICK_NODES if selection.quick else None)
            for dataset in select_datasets(selection, TABLE_DATASETS)
            for seed in selection.seeds(_SPLITS, _QUICK_SPLITS)
            for method in methods
        ]

    def run(self, dataset: str, method: str, seed: int, nodes: int | None = None) -> Run:
        """One system on one split, of the whole graph or of so many nodes."""

        def measure(context: Context) -> Plain:
            graph, system = context.graph(dataset), published_method(method, self.task)
            graph = graph if nodes is None else ego_subgraph(graph, nodes)
            figure, seconds = score_method(
                graph,
                make_split(graph, self.task, seed),
                system,
                seed=seed,
                device=context.device,
                progress=context.progress,
            )
            found = {"figure": round(100 * figure, 4), "seconds": round(seconds, 3)}
            recipe = system.recipe_for(self.task) if isinstance(system, XTCLMethod) else None
            return found if recipe is None else found | {"recipe": to_builtin(asdict(recipe))}

        part = {} if nodes is None else {"nodes": nodes}
        what = {"dataset": dataset, **part, "method": method, "seed": seed}
        return Run(what, measure)


class NodeTable(Comparison):
    """Table 1."""

    name: ClassVar[str] = "table-nodes"
    title: ClassVar[str] = "Node classification, accuracy in percent"
    task: ClassVar[str] = "nodes"


class LinkTable(Comparison):
    """Table 2."""

    name: ClassVar[str] = "table-links"
    title: ClassVar[str] = "Link prediction, AUC in percent"
    task: ClassVar[str] = "links"


FAR = 8.0
"""Points behind the best beyond which the picture has no room."""


MARKS = ("**{}** ①", "{} ②", "{} ③")


def draw_comparison(experiment: Comparison, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    cells = gather(records)
    datasets = [name for name in TABLE_DATASETS if any(where == name for where, _ in cells)]
    methods = [name for name in ORDER if any(method == name for _, method in cells)]
    _picture(experiment, cells, datasets, methods, folder)
    first = min(record.what["seed"] for record in records)
    paper = PAPER_FIGURES[experiment.task]
    parts = [
        f"# {experiment.title}",
        *part_of_data(records),
        f"Mean ± standard error over the splits from seed {first}, all systems on the same ones. "
        "① ② ③: first, second, third of those that have all splits. *: the first is ahead of the "
        f"second with p < {SIGNIFICANT} in a paired t-test over splits. In brackets: the number of "
        f"splits where it is not {_SPLITS}.",
        table(
            ["", *datasets],
            [
                [METHODS[method].title, *(figure_text(cells, d, method, _SPLITS) for d in datasets)]
                for method in methods
            ],
        ),
        "First against second:",
        table(["data set", "first", "second", "difference", "p"], _tests(cells, datasets)),
        *what_each_is_given(experiment.task, methods),
        *([] if part_of_data(records) else _beside_the_paper(experiment, cells, datasets, methods)),
        "## Seconds of a fit, median over splits on the machine that made most runs",
        "Medians of others stand where all of them have seconds on that machine.",
        table(
            ["", *datasets],
            [
                [METHODS[method].title, *(seconds_text(cells.get((d, method))) for d in datasets)]
                for method in methods
            ]
            + [
                ["median of the paper's others", *(_others(cells, d, paper) for d in datasets)],
                ["median of all others", *(_others(cells, d, METHODS) for d in datasets)],
            ],
        ),
        conditions(records),
        f"![{experiment.title}]({experiment.name}.svg)",
    ]
    return page(parts)


def part_of_data(records: Sequence[Record]) -> list[str]:
    """A warning, where only a part of the data was used."""
    numbers = {record.what["nodes"] for record in records if "nodes" in record.what}
    return [
        f"On {number} nodes of each data set, around its best linked one: a quick look, not to be "
        "set beside figures of whole graphs."
        for number in numbers
    ]


def figure_text(
    cells: Cells, dataset: str, method: str, splits: int, marks: Sequence[str] = MARKS
) -> str:
    """A cell with its place among those that have all splits; in brackets, where not `splits`."""
    cell = cells.get((dataset, method))
    if cell is None:
        return DASH
    text = spread_labels(cell.mean, cell.error)
    order = ranking(cells, dataset)
    place = order.index(method) if method in order else len(marks)
    if place < len(marks):
        text = marks[place].format(text)
    if place == 0 and len(order) > 1:
        p = p_value(cell, cells[dataset, order[1]])
        text += "*" if p is not None and p < SIGNIFICANT else ""
    count = len(cell.figures)
    return text if count == splits else f"{text} ({count})"


def _tests(cells: Cells, datasets: Sequence[str]) -> list[list[str]]:
    rows = []
    for dataset in datasets:
        order = ranking(cells, dataset)
        if len(order) < 2:
            continue
        first, second = (cells[dataset, method] for method in order[:2])
        p = p_value(first, second)
        titles = [METHODS[method].title for method in order[:2]]
        ahead = f"{first.mean - second.mean:+.2f}"
        rows.append([dataset, *titles, ahead, DASH if p is None else f"{p:.3f}"])
    return rows


def _beside_the_paper(
    experiment: Comparison, cells: Cells, datasets: Sequence[str], methods: Sequence[str]
) -> list[str]:
    rows = [
        [METHODS[method].title, *(_difference(experiment, cells, d, method) for d in datasets)]
        for method in methods
    ]
    return [
        "## Minus the paper's figure",
        table(["", *datasets], rows),
        *_as_printed(experiment, cells, datasets),
    ]


def _as_printed(experiment: Comparison, cells: Cells, datasets: Sequence[str]) -> list[str]:
    """The paper's method as printed between its published row and ours; nothing without runs."""
    rows = []
    for name, published in PRINTED_AS.items():
        if not any((dataset, name) in cells for dataset in datasets):
            continue
        figures = [printed(experiment.task, published, dataset) for dataset in datasets]
        title = METHODS[published].title
        rows += [
            [f"{title}, published", *(f"{each:.2f}" for each in figures)],
            [METHODS[name].title, *(_plain(cells.get((d, name))) for d in datasets)],
            [f"{title}, our recipe", *(_plain(cells.get((d, published))) for d in datasets)],
        ]
    return ["## The method as printed", table(["", *datasets], rows)] if rows else []


def _plain(cell: Cell | None) -> str:
    return DASH if cell is None else spread_labels(cell.mean, cell.error)


def _difference(experiment: Comparison, cells: Cells, dataset: str, method: str) -> str:
    cell, paper = cells.get((dataset, method)), printed(experiment.task, method, dataset)
    return DASH if cell is None or paper is None else f"{cell.mean - paper:+.2f}"


def seconds_text(cell: Cell | None) -> str:
    """The median of the seconds of a cell."""
    return DASH if cell is None or not cell.seconds else f"{_usual(cell):.1f}"


def _usual(cell: Cell) -> float:
    """The median over the splits: a first fit, which waits for libraries, hardly moves it."""
    return float(np.median(list(cell.seconds.values())))


def _others(cells: Cells, dataset: str, methods: Container[str]) -> str:
    """The median over those of the `methods` that are not XTCL; none where one has no seconds.

    A median over those that are left would say how quick they are, and not how quick the others.
    """
    others = {method for _, method in cells if method in methods and not method.startswith("xtcl")}
    here = [cells.get((dataset, method)) for method in others]
    timed = [_usual(cell) for cell in here if cell is not None and cell.seconds]
    return f"{np.median(timed):.1f}" if timed and len(timed) == len(here) else DASH


def _picture(
    experiment: Comparison,
    cells: Cells,
    datasets: Sequence[str],
    methods: Sequence[str],
    folder: Path,
) -> None:
    """A row for each system, a column for each data set; dots with their standard errors."""
    size = 2.2 + 2.0 * len(datasets), 1.0 + 0.27 * len(methods)
    with picture(folder, experiment.name, *size) as figure:
        columns = figure.subplots(1, len(datasets), sharey=True, squeeze=False)[0]
        for axes, dataset in zip(columns, datasets, strict=True):
            _column(axes, cells, dataset, methods)
            axes.set_title(dataset)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.grid(axis="x", linewidth=0.5, alpha=0.5)
            axes.tick_params(axis="y", length=0)
        columns[0].set_yticks(range(len(methods)), [METHODS[m].title for m in methods])
        columns[0].invert_yaxis()
        figure.suptitle(experiment.title)


def _column(axes: Axes, cells: Cells, dataset: str, methods: Sequence[str]) -> None:
    """One data set; far behind: at the edge, with its figure; hollow: without all splits."""
    order = ranking(cells, dataset)
    best = max(cell.mean for (where, _), cell in cells.items() if where == dataset)
    for place, method in enumerate(methods):
        cell = cells.get((dataset, method))
        if cell is None:
            continue
        colour = OURS if method.startswith("xtcl") else FIRST if order[:1] == [method] else OTHER
        if cell.mean < best - FAR:
            axes.plot(best - FAR, place, marker="<", color=colour, markersize=5)
            axes.annotate(
                f"{cell.mean:.1f}", (best - FAR, place), (6, -3), textcoords="offset points"
            )
            continue
        axes.errorbar(
            cell.mean,
            place,
            xerr=cell.error or 0.0,
            fmt="o",
            color=colour,
            markerfacecolor=colour if method in order else "white",
            markersize=5,
        )


TABLE_DATASETS = ("cora", "citeseer", "pubmed", "computers", "photo")


_PAPER_NODES = {
    "dgi": (84.42, 69.37, 84.35, 83.59, 91.92),
    "sugrl": (82.86, 72.59, 85.17, 85.28, 92.85),
    "asp": (84.58, 73.53, 84.0, 84.03, 90.52),
    "polygcl": (65.62, 71.10, 85.28, 82.32, 89.92),
    "gcn": (82.01, 68.73, 86.65, 88.01, 92.59),
    "gat": (83.01, 69.16, 85.08, 88.16, 93.0),
    "dgcn": (80.21, 69.96, 83.57, 86.23, 90.87),
    "meta-pn": (83.96, 73.02, 85.32, 78.24, 88.72),
    "cocos": (83.1, 72.65, 86.30, 83.99, 92.07),
    "xtcl-gcn": (85.19, 73.55, 86.09, 89.54, 93.84),
    "xtcl-gat": (84.13, 73.26, 85.47, 88.50, 93.15),
}


_PAPER_LINKS = {
    "dgi": (93.36, 94.17, 94.18, 84.0, 93.03),
    "sugrl": (93.74, 96.89, 95.81, 91.89, 95.50),
    "asp": (91.45, 95.30, 93.47, 89.02, 91.19),
    "polygcl": (70.48, 64.65, 76.40, 86.00, 85.13),
    "gcn": (92.9, 95.97, 95.33, 95.59, 96.9),
    "gat": (93.0, 95.28, 95.38, 95.05, 96.82),
    "dgcn": (91.56, 89.46, 95.36, 93.73, 95.64),
    "subgraph": (87.01, 88.95, 95.08, 98.00, 98.21),
    "xtcl-gcn": (94.07, 97.13, 96.72, 97.32, 98.38),
    "xtcl-gat": (93.95, 97.01, 96.64, 96.43, 97.44),
}


PAPER_FIGURES = {"nodes": _PAPER_NODES, "links": _PAPER_LINKS}


PRINTED_AS = {"xtcl-paper": "xtcl-gcn", "xtcl-paper-gat": "xtcl-gat"}
"""Systems that stand beside a row of the paper that goes by another name here."""


def printed(task: str, method: str, dataset: str) -> float | None:
    """The paper's figure for a cell, or None where it has none."""
    row = PAPER_FIGURES[task].get(PRINTED_AS.get(method, method))
    return (
        None if row is None or dataset not in TABLE_DATASETS else row[TABLE_DATASETS.index(dataset)]
    )


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
