"""The learning curves as a page and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from xtcl.experiments.reproduction.experiment import Record
from xtcl.experiments.reproduction.learning_curve import LearningCurve
from xtcl.report.markdown import page
from xtcl.report.pictures import picture
from xtcl.report.reproduction.conditions import conditions
from xtcl.report.reproduction.curves import curves_of, curves_table, draw_curves


def draw_learning_curve(experiment: LearningCurve, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    datasets = list(dict.fromkeys(record.what["dataset"] for record in records))
    parts = [
        f"# {experiment.title}",
        "Test accuracy in percent, mean ± standard error over splits; the same fifth of the nodes "
        "tests all training sizes. The ceiling's encoder sees all labels, test labels included. "
        "The contrastive losses train XTCL's encoder, with the attributes beside it; the "
        "supervised GCN is a plain one of two layers.",
    ]
    with picture(folder, experiment.name, 1.0 + 5.5 * len(datasets), 4.2) as figure:
        panels = figure.subplots(1, len(datasets), squeeze=False)[0]
        for axes, dataset in zip(panels, datasets, strict=True):
            curves = curves_of(
                [record for record in records if record.what["dataset"] == dataset],
                "percent",
                lambda record: float(record.found["figure"]),
            )
            parts += [f"## {dataset}", curves_table(curves, "training nodes, %")]
            draw_curves(axes, curves)
            axes.set(title=dataset, xlabel="training nodes, %", ylabel="test accuracy, %")
            axes.set_xscale("log")
            ticks = sorted({place for line in curves.values() for place in line})
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
            axes.legend(frameon=False, fontsize=8)
    parts += [conditions(records), f"![{experiment.title}]({experiment.name}.svg)"]
    return page(parts)
