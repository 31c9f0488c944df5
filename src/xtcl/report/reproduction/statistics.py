"""The table of data statistics as a page and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xtcl.experiments.reproduction.experiment import Record
from xtcl.experiments.reproduction.statistics import PRINTED, DatasetStatistics
from xtcl.report.markdown import page, table
from xtcl.report.pictures import FIRST, picture
from xtcl.report.reproduction.conditions import conditions

COUNTS = ("nodes", "edges", "classes", "attributes")


def draw_statistics(experiment: DatasetStatistics, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    rows = []
    for record in records:
        ours = tuple(record.found[count] for count in COUNTS)
        same = "as printed" if ours == PRINTED[record.what["dataset"]] else "differs"
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
