"""Figure: a GCN under six kinds of supervision, as training labels grow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit
from xtcl.lab.experiments.comparison import TABLE_DATASETS
from xtcl.lab.experiments.drawing import conditions, curves_of, curves_table, draw_curves
from xtcl.lab.experiments.experiment import (
    Context,
    Experiment,
    Plain,
    Record,
    Run,
    Selection,
    select_names,
)
from xtcl.lab.experiments.given import published_method
from xtcl.lab.experiments.node_runs import fit_timed
from xtcl.lab.methods.contrastive import with_truth
from xtcl.report.charts import page, picture
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.training_data import TrainingData

_METHODS = ("xtcl-gcn", "sscl", "scl", "naive-tcl", "ceiling-scl", "gcn")


PERCENT = (1, 5, 10, 20, 40, 60, 80)


QUICK_PERCENT = (5, 20, 60)


TESTED = 0.2


_SPLITS = 5


_QUICK_SPLITS = 1


class LearningCurve(Experiment):
    """Training nodes are 1 % to 80 % of all; the same fifth of the nodes tests all of them.

    The paper names neither data set nor sizes: Cora, and these. Smaller training sets are part of
    larger ones.
    """

    name: ClassVar[str] = "learning-curve"
    title: ClassVar[str] = "Accuracy of a GCN under six kinds of supervision"

    def runs(self, selection: Selection) -> list[Run]:
        """Split by split, size by size."""
        return [
            self.run(dataset, percent, method, seed)
            for dataset in select_names("data set", selection.datasets or ["cora"], TABLE_DATASETS)
            for seed in selection.seeds(_SPLITS, _QUICK_SPLITS)
            for percent in (QUICK_PERCENT if selection.quick else PERCENT)
            for method in select_names("method", selection.methods, _METHODS)
        ]

    def run(self, dataset: str, percent: int, method: str, seed: int) -> Run:
        """One kind of supervision with so many labels."""

        def measure(context: Context) -> Plain:
            graph = context.graph(dataset)
            return run_node_method(
                graph, growing_split(graph, percent, seed), method, seed, context
            )

        what = {"dataset": dataset, "percent": percent, "method": method, "seed": seed}
        return Run(what, measure)


def growing_split(graph: Graph, percent: int, seed: int) -> NodeSplit:
    """`percent` of the labelled nodes for training, and always the same fifth for testing.

    Every class has a training node, as long as there is room: a class without a training node would
    measure the luck of the draw.
    """
    side = TrainingData(graph)
    labels = side.labels
    order = np.random.default_rng([seed, 20]).permutation(side.labelled)
    cut = round(TESTED * len(order))
    test, rest = order[:cut], order[cut:]
    _, firsts = np.unique(labels[rest], return_index=True)
    ordered = np.concatenate([rest[np.sort(firsts)], np.delete(rest, firsts)])
    return NodeSplit(ordered[: max(1, round(percent / 100 * len(order)))], test, seed)


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


def run_node_method(
    graph: Graph, split: NodeSplit, method: str, seed: int, context: Context
) -> Plain:
    """Accuracy in percent on test and training nodes, and the seconds of the fit."""
    system = with_truth(published_method(method, "nodes"), graph)
    answer, side, seconds = fit_timed(system, graph, split, seed, context)
    figure = 100 * score_test_side(answer, graph, split)["accuracy"]
    return {
        "figure": round(figure, 4),
        "train": round(100 * training_accuracy(answer, side), 4),
        "seconds": round(seconds, 3),
    }


def training_accuracy(answer: object, side: TrainingData) -> float:
    """The share of the labels it was fitted on that an answer gets right."""
    if not isinstance(answer, NodePredictions):
        raise UsageError("Only a node classifier has an accuracy on its training nodes.")
    known = side.labelled
    return float((answer.probabilities[known].argmax(axis=1) == side.labels[known]).mean())
