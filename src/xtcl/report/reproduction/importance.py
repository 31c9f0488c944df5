"""The importance of relations as a page and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xtcl.experiments.reproduction.experiment import Record
from xtcl.experiments.reproduction.importance import TASKS, Importance
from xtcl.relations.registry import relation_title
from xtcl.report.markdown import DASH, page, table
from xtcl.report.pictures import PALETTE, picture
from xtcl.report.reproduction.conditions import conditions


def draw_importance(experiment: Importance, records: Sequence[Record], folder: Path) -> str:
    """Write the picture; the page, as Markdown."""
    seed = min(record.what["seed"] for record in records)
    first = [record for record in records if record.what["seed"] == seed]
    parts = [
        f"# {experiment.title}",
        "max(|w0|, |w1|) of the sampler's stumps, with the interval that 95 of 100 resamples of "
        "the labelled nodes fall into. Weights average 0 over the pairs, so a relation that says "
        "nothing has 0. Labels are no part of the training data for links: the label relations "
        "are not there, and Link says nothing, because what is to be told is hidden from it.",
    ]
    for task in TASKS:
        shown = [record for record in first if record.what["task"] == task]
        if shown:
            parts += [f"## {task}", _table(shown)]
    _picture(experiment, first, folder)
    parts += [conditions(first), f"![{experiment.title}]({experiment.name}.svg)"]
    return page(parts)


def relations_of(records: Sequence[Record]) -> list[str]:
    """Every relation in the records, the most important on average first."""
    found: dict[str, list[float]] = {}
    for record in records:
        for name, weights in record.found.items():
            found.setdefault(name, []).append(weights["importance"])
    return sorted(found, key=lambda name: -float(np.mean(found[name])))


def _table(records: Sequence[Record]) -> str:
    def cell(record: Record, relation: str) -> str:
        weights = record.found.get(relation)
        if weights is None:
            return DASH
        low, high = weights["interval"]
        return f"{weights['importance']:.2f} ({low:.2f} to {high:.2f})"

    return table(
        ["", *(record.what["dataset"] for record in records)],
        [
            [relation_title(relation), *(cell(record, relation) for record in records)]
            for relation in relations_of(records)
        ],
    )


def _picture(experiment: Importance, records: Sequence[Record], folder: Path) -> None:
    """A panel for each task: bars by relation, one colour for each data set."""
    tasks = [task for task in TASKS if any(record.what["task"] == task for record in records)]
    with picture(folder, experiment.name, 9.0, 0.6 + 3.4 * len(tasks)) as figure:
        for axes, task in zip(
            figure.subplots(len(tasks), 1, squeeze=False)[:, 0], tasks, strict=True
        ):
            shown = [record for record in records if record.what["task"] == task]
            relations = relations_of(shown)
            width = 0.8 / len(shown)
            for place, record in enumerate(shown):
                has = [number for number, name in enumerate(relations) if name in record.found]
                weights = [record.found[relations[number]] for number in has]
                height = np.array([weight["importance"] for weight in weights])
                low, high = np.array([weight["interval"] for weight in weights]).T
                axes.bar(
                    [number + (place - (len(shown) - 1) / 2) * width for number in has],
                    height,
                    width,
                    yerr=np.maximum([height - low, high - height], 0.0),
                    color=PALETTE[place % len(PALETTE)],
                    error_kw={"linewidth": 0.8},
                    label=record.what["dataset"],
                )
            axes.set_xticks(
                range(len(relations)),
                [relation_title(name) for name in relations],
                rotation=20,
                ha="right",
            )
            axes.set(ylabel="max(|w0|, |w1|)", title=task)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, ncols=len(shown), fontsize=8)
