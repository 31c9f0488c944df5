"""XTCL beside other methods on many graphs: tables of a page, and a picture with a row a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import rankdata

from xtcl.lab.experiments.comparison import (
    MARKS,
    SIGNIFICANT,
    Cells,
    figure_text,
    gather,
    seconds_text,
)
from xtcl.lab.experiments.drawing import title_of
from xtcl.lab.experiments.experiment import Plain, Record
from xtcl.model_selection.evaluation import standard_error
from xtcl.report.charts import DASH, OTHER, OURS, PALETTE, picture, spread_labels, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


OUR_METHOD = "xtcl-gcn"
"""The method that is compared with all others."""

LEVEL = 0.3
"""Points below the best other method that still count as level with it."""

MARKED = (
    "① ②: first and second of those that have all splits of a graph. *: the first is ahead of the "
    f"second with p < {SIGNIFICANT} in a paired t-test."
)
"""What a table of figures means by its marks."""

PAIRED = "In points, paired over the splits that both have; ± is the standard error of the mean."

LEFT, RIGHT = -6.0, 15.0
"""Points below and above the best other method beyond which the picture has no room."""

LOOKS = {
    OUR_METHOD: ("D", OURS),
    "sscl": ("o", PALETTE[1]),
    "naive-tcl": ("s", PALETTE[2]),
    "propagation": ("v", PALETTE[3]),
    "propagation-all-links": ("<", PALETTE[3]),
    "logistic": ("^", PALETTE[4]),
    "trees": ("P", PALETTE[5]),
    "trees-neighbours": ("X", PALETTE[5]),
    "gcn": ("p", PALETTE[7]),
    "gcn-all-links": (">", PALETTE[7]),
    "gat": ("h", PALETTE[7]),
    "dgi": ("*", PALETTE[2]),
}
"""Marker and colour of each method, the same in all pictures."""


class Difference(NamedTuple):
    """What XTCL has above another method over the splits that both have, in points."""

    other: str
    mean: float
    error: float | None
    splits: int

    def __str__(self) -> str:
        return spread_labels(self.mean, self.error, "+")


class Bar(NamedTuple):
    """A goal, whether it is reached, and the figures that say so."""

    goal: str
    reached: bool | None
    """None where runs that it needs are missing."""
    figures: str


def verdict(so_far: bool, *, whole: bool) -> bool | None:
    """Of a goal over many graphs: one that holds so far is open until all have runs."""
    return so_far and (True if whole else None)


def listed(count: str, names: Iterable[str], before: str = "") -> str:
    """A count, with names after it where there are any."""
    text = ", ".join(names)
    return f"{count}; {before}{text}" if text else count


@dataclass(frozen=True)
class SideBySide:
    """The cells of several graphs, with graphs and methods in the order of the page."""

    cells: Cells
    graphs: tuple[str, ...]
    methods: tuple[str, ...]
    splits: Callable[[str], int]
    """How many splits a graph usually has."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Of methods that `xtcl methods` does not list."""

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        graphs: Sequence[str],
        methods: Sequence[str],
        splits: Callable[[str], int],
        titles: Mapping[str, str] | None = None,
    ) -> SideBySide:
        """The graphs and methods that have runs."""
        cells = gather(records)
        return cls(
            cells,
            tuple(name for name in graphs if any(name == graph for graph, _ in cells)),
            tuple(name for name in methods if any(name == method for _, method in cells)),
            splits,
            titles or {},
        )

    @property
    def others(self) -> tuple[str, ...]:
        """All methods but XTCL."""
        return tuple(name for name in self.methods if name != OUR_METHOD)

    def title(self, method: str) -> str:
        """How tables call a method."""
        return self.titles.get(method) or title_of(method)

    def difference(self, graph: str, other: str) -> Difference | None:
        """XTCL minus another method, paired over splits; none without a split that both have."""
        ours, theirs = self.cells.get((graph, OUR_METHOD)), self.cells.get((graph, other))
        if ours is None or theirs is None:
            return None
        both = sorted(ours.figures.keys() & theirs.figures.keys())
        points = [ours.figures[seed] - theirs.figures[seed] for seed in both]
        if not points:
            return None
        return Difference(other, float(np.mean(points)), standard_error(points), len(points))

    def differences(self, graph: str) -> list[Difference]:
        """Those to all other methods of a graph, the best of them first."""
        found = [each for other in self.others if (each := self.difference(graph, other))]
        return sorted(found, key=lambda each: each.mean)

    def figures_table(self) -> str:
        """A row for each graph, a column for each method; first and second are marked."""
        rows = [
            [
                graph,
                *(
                    figure_text(self.cells, graph, method, self.splits(graph), MARKS[:2])
                    for method in self.methods
                ),
            ]
            for graph in self.graphs
        ]
        return table(["", *map(self.title, self.methods)], rows)

    def differences_table(self) -> str:
        """XTCL minus each other method: a row for each graph."""
        rows = []
        for graph in self.graphs:
            found = {each.other: each for each in self.differences(graph)}
            rows.append([graph, *(str(found.get(other, DASH)) for other in self.others)])
        return table(["", *map(self.title, self.others)], rows)

    def shared_graphs(self) -> dict[str, list[int]]:
        """The graphs where all methods have splits in common, and these splits."""
        shared = {}
        for graph in self.graphs:
            cells = [self.cells.get((graph, method)) for method in self.methods]
            seeds = [set(cell.figures) if cell else set() for cell in cells]
            if common := set.intersection(*seeds):
                shared[graph] = sorted(common)
        return shared

    def overall_table(self) -> str:
        """Mean and mean rank of each method over the graphs that all have; and XTCL minus it."""
        shared = self.shared_graphs()
        means = np.array(
            [
                [
                    np.mean([self.cells[graph, method].figures[seed] for seed in seeds])
                    for graph, seeds in shared.items()
                ]
                for method in self.methods
            ]
        )
        ranks = rankdata(-means, axis=0) if shared else means
        rows = []
        for place, method in enumerate(self.methods):
            over = self.mean_difference(method) if method != OUR_METHOD else None
            rows.append(
                [
                    self.title(method),
                    f"{means[place].mean():.2f}" if shared else DASH,
                    f"{ranks[place].mean():.2f}" if shared else DASH,
                    DASH if over is None else f"{over[0]:+.2f} ({over[1]} graphs)",
                ]
            )
        ours = f"{self.title(OUR_METHOD)} minus it, on the graphs that both have"
        return table(["", f"mean over {len(shared)} graphs", "mean rank", ours], rows)

    def mean_difference(self, other: str) -> tuple[float, int] | None:
        """Mean over graphs of XTCL minus another method, and how many graphs both have."""
        found = [each.mean for graph in self.graphs if (each := self.difference(graph, other))]
        return (float(np.mean(found)), len(found)) if found else None

    def seconds_table(self, methods: Sequence[str]) -> str:
        """Medians over splits, on the machine that made most runs."""
        rows = [
            [graph, *(seconds_text(self.cells.get((graph, method))) for method in methods)]
            for graph in self.graphs
        ]
        return table(["", *map(self.title, methods)], rows)

    def draw(self, folder: Path, name: str, title: str) -> None:
        """Points above or below the best other method: a row a graph, a marker for each method."""
        found = {graph: each for graph in self.graphs if (each := self.differences(graph))}
        ends = [each[0].mean + (each[0].error or 0.0) for each in found.values()]
        right = min(max([2.0, *ends]), RIGHT)
        with picture(folder, name, 9.0, 1.6 + 0.42 * max(len(found), 3)) as figure:
            axes = figure.subplots()
            axes.axvspan(-LEVEL, LEVEL, color=OTHER, alpha=0.25, linewidth=0)
            axes.axvline(0, color="black", linewidth=0.8)
            for row, differences in enumerate(found.values()):
                _draw_row(axes, row, differences, right)
            for method in self.methods:
                marker, colour = LOOKS[method]
                axes.plot([], [], marker, color=colour, label=self.title(method), markersize=7)
            axes.set_yticks(range(len(found)), list(found))
            axes.set_ylim(max(len(found), 1) - 0.5, -0.5)
            axes.set_xlim(LEFT - 0.2, right + 0.2)
            axes.set(xlabel="points above or below the best rival", title=title)
            axes.grid(axis="y", linewidth=0.5, alpha=0.5)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.tick_params(axis="y", length=0)
            figure.legend(loc="outside right upper", frameon=False, fontsize=8)

    def picture_text(self) -> str:
        """What the picture shows, in words."""
        return (
            f"Points above the best rival of each graph; the band is ±{LEVEL}. The bar of "
            f"{self.title(OUR_METHOD)} is the standard error of its paired difference to that "
            "rival. What is further away stands at the edge."
        )


def _draw_row(axes: Axes, row: int, found: Sequence[Difference], right: float) -> None:
    """XTCL by its difference to the best other method, each of those by its own beside that."""
    best = found[0]
    _mark(axes, best.mean, row, OUR_METHOD, right)
    if LEFT <= best.mean <= right:
        axes.errorbar(best.mean, row, xerr=best.error or 0.0, color=OURS, linewidth=1.5)
    for each in reversed(found):  # the best one last, above the others
        _mark(axes, best.mean - each.mean, row, each.other, right)


def _mark(axes: Axes, x: float, row: int, method: str, right: float) -> None:
    """The marker of a method; where there is no room for it, at the edge."""
    marker, colour = LOOKS[method]
    inside = min(max(x, LEFT), right)
    size = 10 if method == OUR_METHOD else 9 if marker == "*" else 6
    edge: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.6}
    axes.plot(inside, row, marker, color=colour, markersize=size, clip_on=False, zorder=3, **edge)
    if x != inside and method == OUR_METHOD:
        axes.annotate(f"{x:+.1f}", (inside, row), (0, 8), textcoords="offset points", ha="center")


def bars_table(bars: Sequence[Bar]) -> str:
    """Goals with their verdicts."""
    words = {True: "reached", False: "not reached", None: "open: runs are missing"}
    rows = [[each.goal, words[each.reached], each.figures] for each in bars]
    return table(["goal", "", "figures"], rows)


def choices_table(records: Sequence[Record], graphs: Sequence[str]) -> str:
    """What hidden labels chose on each graph: mean weights over splits, the largest first.

    Nothing where no run says so.
    """
    rows = []
    for graph in graphs:
        choices = [
            record.found["choice"]
            for record in records
            if record.what["dataset"] == graph
            and record.what["method"] == OUR_METHOD
            and "choice" in record.found
        ]
        if choices:
            hidden = np.mean([choice["hidden_labels"] for choice in choices])
            rows.append([graph, str(len(choices)), f"{hidden:.0f}", _shares(choices)])
    head = ["", "splits", "hidden labels", "mean weight (splits where chosen)"]
    return table(head, rows) if rows else ""


def _shares(choices: Sequence[Plain]) -> str:
    weights: dict[str, list[float]] = {}
    for choice in choices:
        for each in choice["candidates"]:
            if each["weight"] > 0:
                weights.setdefault(each["name"], []).append(each["weight"])
    means = {name: sum(found) / len(choices) for name, found in weights.items()}
    return ", ".join(
        f"{name} {100 * means[name]:.0f} % ({len(weights[name])})"
        for name in sorted(means, key=lambda name: -means[name])
    )
