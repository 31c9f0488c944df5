"""Tables 1 and 2 as a page and a picture."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xtcl.baselines.registry import METHODS
from xtcl.experiments.reproduction.comparison import ORDER, SPLITS, Comparison
from xtcl.experiments.reproduction.experiment import Record
from xtcl.experiments.reproduction.paper_tables import COLUMNS, PRINTED, printed
from xtcl.report.markdown import DASH, page, spread, table
from xtcl.report.pictures import FIRST, OTHER, OURS, picture
from xtcl.report.reproduction.cells import SIGNIFICANT, Cell, Cells, gather, p_value, ranking
from xtcl.report.reproduction.conditions import conditions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAR = 8.0
"""Points behind the best beyond which the picture has no room."""
MARKS = ("**{}** ①", "{} ②", "{} ③")


def draw_comparison(experiment: Comparison, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    cells = gather(records)
    datasets = [name for name in COLUMNS if any(where == name for where, _ in cells)]
    methods = [name for name in ORDER if any(method == name for _, method in cells)]
    _picture(experiment, cells, datasets, methods, folder)
    first = min(record.what["seed"] for record in records)
    paper = PRINTED[experiment.task]
    parts = [
        f"# {experiment.title}",
        *_part(records),
        f"Mean ± standard error over the splits from seed {first}, all systems on the same ones. "
        "① ② ③: first, second, third of those that have all splits. *: the first is ahead of the "
        f"second with p < {SIGNIFICANT} in a paired t-test over splits. In brackets: the number of "
        f"splits where it is not {SPLITS}.",
        table(
            ["", *datasets],
            [
                [METHODS[method].title, *(_cell(cells, dataset, method) for dataset in datasets)]
                for method in methods
            ],
        ),
        "First against second:",
        table(["data set", "first", "second", "difference", "p"], _tests(cells, datasets)),
        *([] if _part(records) else _beside_the_paper(experiment, cells, datasets, methods)),
        "## Seconds of a fit, median over splits on the machine that made most runs",
        "Medians of others stand where all of them have seconds on that machine.",
        table(
            ["", *datasets],
            [
                [METHODS[method].title, *(_seconds(cells.get((d, method))) for d in datasets)]
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


def _part(records: Sequence[Record]) -> list[str]:
    """A warning, where only a part of the data was used."""
    numbers = {record.what["nodes"] for record in records if "nodes" in record.what}
    return [
        f"On {number} nodes of each data set, around its best linked one: a quick look, not to be "
        "set beside the paper's figures."
        for number in numbers
    ]


def _cell(cells: Cells, dataset: str, method: str) -> str:
    cell = cells.get((dataset, method))
    if cell is None:
        return DASH
    text = spread(cell.mean, cell.error)
    order = ranking(cells, dataset)
    place = order.index(method) if method in order else len(MARKS)
    if place < len(MARKS):
        text = MARKS[place].format(text)
    if place == 0 and len(order) > 1:
        p = p_value(cell, cells[dataset, order[1]])
        text += "*" if p is not None and p < SIGNIFICANT else ""
    count = len(cell.figures)
    return text if count == SPLITS else f"{text} ({count})"


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
    return ["## Minus the paper's figure", table(["", *datasets], rows)]


def _difference(experiment: Comparison, cells: Cells, dataset: str, method: str) -> str:
    cell, paper = cells.get((dataset, method)), printed(experiment.task, method, dataset)
    return DASH if cell is None or paper is None else f"{cell.mean - paper:+.2f}"


def _seconds(cell: Cell | None) -> str:
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
