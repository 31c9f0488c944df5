"""Tables 1 and 2 as a page and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xtcl.baselines.registry import METHODS
from xtcl.experiments.reproduction.comparison import ORDER, SPLITS, Comparison
from xtcl.experiments.reproduction.experiment import Record
from xtcl.experiments.reproduction.paper_tables import COLUMNS, printed
from xtcl.report.markdown import DASH, spread, table
from xtcl.report.pictures import FIRST, OTHER, OURS, picture
from xtcl.report.reproduction.cells import SIGNIFICANT, Cell, Cells, gather, p_value, ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = ("**{}** ①", "{} ②", "{} ③")


def draw_comparison(experiment: Comparison, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    cells = gather(records)
    datasets = [name for name in COLUMNS if any(where == name for where, _ in cells)]
    methods = [name for name in ORDER if any(method == name for _, method in cells)]
    _picture(experiment, cells, datasets, methods, folder)
    first = min(record.what["seed"] for record in records)
    parts = [
        f"# {experiment.title}",
        f"Mean ± standard error over the splits from seed {first}, all systems on the same ones. "
        f"① ② ③: first, second, third. *: the first is ahead of the second with p < {SIGNIFICANT} "
        "in a paired t-test over splits. In brackets: the number of splits where it is not "
        f"{SPLITS}.",
        table(
            ["", *datasets],
            [
                [METHODS[method].title, *(_cell(cells, dataset, method) for dataset in datasets)]
                for method in methods
            ],
        ),
        "First against second:",
        table(["data set", "first", "second", "difference", "p"], _tests(cells, datasets)),
        "## Minus the paper's figure",
        table(
            ["", *datasets],
            [
                [
                    METHODS[method].title,
                    *(_difference(experiment, cells, d, method) for d in datasets),
                ]
                for method in methods
            ],
        ),
        "## Seconds a split, from training data to answers",
        table(
            ["", *datasets],
            [
                [METHODS[method].title, *(_seconds(cells.get((d, method))) for d in datasets)]
                for method in methods
            ],
        ),
        _conditions(records),
        f"![{experiment.title}]({experiment.name}.svg)",
    ]
    return "\n\n".join(parts) + "\n"


def _cell(cells: Cells, dataset: str, method: str) -> str:
    cell = cells.get((dataset, method))
    if cell is None:
        return DASH
    text = spread(cell.mean, cell.error)
    order = ranking(cells, dataset)
    place = order.index(method)
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


def _difference(experiment: Comparison, cells: Cells, dataset: str, method: str) -> str:
    cell, paper = cells.get((dataset, method)), printed(experiment.task, method, dataset)
    return DASH if cell is None or paper is None else f"{cell.mean - paper:+.2f}"


def _seconds(cell: Cell | None) -> str:
    return DASH if cell is None else f"{np.mean(list(cell.seconds.values())):.1f}"


def _conditions(records: Sequence[Record]) -> str:
    """Which machines and which code made the runs."""
    made: dict[str, int] = {}
    for record in records:
        hardware, versions = record.hardware, record.versions
        gpu = "no GPU" if hardware["gpu"] == "none" else hardware["gpu"]
        text = (
            f"{gpu}; {hardware['cpu']}, {hardware['threads']} thread(s); xtcl {versions['xtcl']} "
            f"(code {versions['code']}), torch {versions['torch']}"
        )
        made[text] = made.get(text, 0) + 1
    return "\n".join(f"- {count} runs: {text}" for text, count in made.items())


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
        columns[0].set_yticks(range(len(methods)), [METHODS[m].title for m in methods])
        columns[0].invert_yaxis()
        figure.suptitle(experiment.title)


def _column(axes: Axes, cells: Cells, dataset: str, methods: Sequence[str]) -> None:
    order = ranking(cells, dataset)
    for place, method in enumerate(methods):
        cell = cells.get((dataset, method))
        if cell is None:
            continue
        colour = OURS if method.startswith("xtcl") else FIRST if method == order[0] else OTHER
        axes.errorbar(cell.mean, place, xerr=cell.error or 0.0, fmt="o", color=colour, markersize=5)
