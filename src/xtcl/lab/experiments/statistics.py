"""The table of data statistics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

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
from xtcl.report.charts import FIRST, page, picture, table

STATISTICS_DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers")


PAPER_COUNTS: dict[str, tuple[int, int, int, int]] = {
    "cora": (2708, 10556, 7, 1433),
    "citeseer": (3327, 9104, 6, 3703),
    "pubmed": (19717, 88648, 3, 500),
    "photo": (7650, 238162, 8, 745),
    "computers": (13752, 491722, 10, 767),
}
"""Nodes, edges in both directions, classes and attributes, as the paper prints them."""


class DatasetStatistics(Experiment):
    """Nodes, edges (both directions, as the paper counts them), classes, attributes."""

    name: ClassVar[str] = "datasets"
    title: ClassVar[str] = "Data statistics"

    def runs(self, selection: Selection) -> list[Run]:
        """One for each data set; quick: Cora, which is always there."""
        select_names("method", selection.methods, ())
        return [self.run(dataset) for dataset in select_datasets(selection, STATISTICS_DATASETS)]

    def run(self, dataset: str) -> Run:
        """Count."""

        def measure(context: Context) -> Plain:
            graph = context.graph(dataset)
            return {
                "nodes": graph.num_nodes,
                "edges": 2 * graph.num_edges,
                "classes": graph.num_classes,
                "attributes": graph.num_attributes,
            }

        return Run({"dataset": dataset}, measure)


COUNTS = ("nodes", "edges", "classes", "attributes")


def draw_statistics(experiment: DatasetStatistics, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    rows = []
    for record in records:
        ours = tuple(record.found[count] for count in COUNTS)
        same = "as printed" if ours == PAPER_COUNTS[record.what["dataset"]] else "differs"
        rows.append([record.what["dataset"], *(f"{count:,}" for count in ours), same])
    with picture(folder, experiment.name, 6.0, 3.2) as figure:
        axes = figure.subplots()
        for record in records:
            nodes, edges = record.found["nodes"], record.found["edges"]
            axes.plot(nodes, edges, "o", color=FIRST)
            axes.annotate(
                record.what["dataset"], (nodes, edges), (6, 4), textcoords="offset points"
            )
        axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="edges, both directions")
        axes.margins(0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(experiment.title)
    parts = [
        f"# {experiment.title}",
        "Edges are counted in both directions, as the paper counts them.",
        table(["data set", *COUNTS, "the paper"], rows),
        conditions(records),
        f"![{experiment.title}]({experiment.name}.svg)",
    ]
    return page(parts)
