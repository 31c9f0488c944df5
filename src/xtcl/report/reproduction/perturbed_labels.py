"""What bent labels do to accuracy, as a page and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xtcl.experiments.reproduction.experiment import Record
from xtcl.experiments.reproduction.perturbed_labels import PerturbedLabels
from xtcl.report.markdown import page, table
from xtcl.report.pictures import picture
from xtcl.report.reproduction.conditions import conditions
from xtcl.report.reproduction.curves import Value, curves_of, curves_table, draw_curves

AXIS = "perturbed nodes"


PANELS: dict[str, Value] = {
    "test accuracy, %": lambda record: float(record.found["figure"]),
    "training minus test accuracy": lambda record: float(
        record.found["train"] - record.found["figure"]
    ),
}
RULES = {
    "copy": "labels handed on with chance 0.5 (the paper's rule)",
    "vote": "the commonest label above (our rule)",
}


def draw_perturbed_labels(
    experiment: PerturbedLabels, records: Sequence[Record], folder: Path
) -> str:
    """Write the picture; the page, as Markdown."""
    parts = [
        f"# {experiment.title}",
        "Mean ± standard error over graphs and splits; 10 % of the labels train. On Cora the "
        "labels agree with this relation from the start, and handing them on at random lowers the "
        "agreement that it is meant to raise; so a rule that raises it stands beside.",
    ]
    rules = [rule for rule in RULES if any(record.what["rule"] == rule for record in records)]
    with picture(folder, experiment.name, 11.0, 0.4 + 3.8 * len(rules)) as figure:
        for row, rule in zip(figure.subplots(len(rules), 2, squeeze=False), rules, strict=True):
            bent = [record for record in records if record.what["rule"] == rule]
            parts += [f"## {RULES[rule][0].upper()}{RULES[rule][1:]}", _information(bent)]
            for axes, (name, value) in zip(row, PANELS.items(), strict=True):
                curves = curves_of(bent, "number", value)
                parts += [f"{name[0].upper()}{name[1:]}:", curves_table(curves, AXIS)]
                draw_curves(axes, curves)
                axes.set(xlabel=AXIS, ylabel=name, title=RULES[rule])
                axes.title.set_fontsize(9)
                axes.legend(frameon=False, fontsize=8)
        figure.suptitle(experiment.title)
    parts += [conditions(records), f"![{experiment.title}]({experiment.name}.svg)"]
    return page(parts)


def _information(records: Sequence[Record]) -> str:
    """What the relation tells about the labels: the mean over graphs, each counted once."""
    told: dict[int, dict[int, float]] = {}
    for record in records:
        graphs = told.setdefault(record.what["number"], {})
        graphs[record.what["graph"]] = record.found["information"]
    rows = [[str(n), f"{1e4 * np.mean(list(told[n].values())):.2f}"] for n in sorted(told)]
    return table([AXIS, "what the relation tells about the labels, 1e-4 nats"], rows)
