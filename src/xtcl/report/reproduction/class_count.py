"""Accuracy against the number of classes as a page and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xtcl.experiments.reproduction.class_count import PRINTED, ClassCount
from xtcl.experiments.reproduction.experiment import Record
from xtcl.report.markdown import page
from xtcl.report.pictures import OTHER, picture
from xtcl.report.reproduction.conditions import conditions
from xtcl.report.reproduction.curves import curves_of, curves_table, draw_curves


def draw_class_count(experiment: ClassCount, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    curves = curves_of(records, "classes", lambda record: float(record.found["figure"]))
    with picture(folder, experiment.name, 6.0, 4.0) as figure:
        axes = figure.subplots()
        draw_curves(axes, curves)
        axes.plot(list(PRINTED), list(PRINTED.values()), "--", color=OTHER, label="the paper's GCN")
        axes.set(xlabel="classes", ylabel="test accuracy, %", title=experiment.title)
        axes.set_xticks(list(PRINTED))
        axes.legend(frameon=False)
    paper = ", ".join(f"{figure:.1f} with {classes}" for classes, figure in PRINTED.items())
    parts = [
        f"# {experiment.title}",
        "Test accuracy in percent, mean ± standard error over splits, each with classes drawn "
        f"anew; 10 % of the labels train. The paper's GCN: {paper}. Its table is headed PubMed, "
        "which has three classes in all; its text speaks of Cora.",
        curves_table(curves, "classes"),
        conditions(records),
        f"![{experiment.title}]({experiment.name}.svg)",
    ]
    return page(parts)
