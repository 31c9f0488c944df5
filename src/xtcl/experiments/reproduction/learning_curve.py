"""Figure: a GCN under six kinds of supervision, as training labels grow."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from xtcl.experiments.reproduction.experiment import (
    Bench,
    Experiment,
    Measurement,
    Plain,
    Scope,
    chosen,
)
from xtcl.experiments.reproduction.node_run import node_run
from xtcl.experiments.reproduction.paper_tables import COLUMNS
from xtcl.graph.graph import Graph
from xtcl.graph.node_split import NodeSplit
from xtcl.tasks.training_side import TrainingSide

METHODS = ("xtcl-gcn", "sscl", "scl", "naive-tcl", "ceiling-scl", "gcn")
PERCENT = (1, 5, 10, 20, 40, 60, 80)
QUICK_PERCENT = (5, 20, 60)
TESTED = 0.2
SPLITS = 5
QUICK_SPLITS = 1


class LearningCurve(Experiment):
    """Training nodes are 1 % to 80 % of all; the same fifth of the nodes tests all of them.

    The paper names neither data set nor sizes: Cora, and these. Smaller training sets are part of
    larger ones.
    """

    name: ClassVar[str] = "learning-curve"
    title: ClassVar[str] = "Accuracy of a GCN under six kinds of supervision"

    def measurements(self, scope: Scope) -> list[Measurement]:
        """Split by split, size by size."""
        return [
            self.measurement(dataset, percent, method, seed)
            for dataset in chosen("data set", scope.datasets or ["cora"], COLUMNS)
            for seed in scope.seeds(SPLITS, QUICK_SPLITS)
            for percent in (QUICK_PERCENT if scope.quick else PERCENT)
            for method in chosen("method", scope.methods, METHODS)
        ]

    def measurement(self, dataset: str, percent: int, method: str, seed: int) -> Measurement:
        """One kind of supervision with so many labels."""

        def measure(bench: Bench) -> Plain:
            graph = bench.graph(dataset)
            return node_run(graph, growing_split(graph, percent, seed), method, seed, bench)

        what = {"dataset": dataset, "percent": percent, "method": method, "seed": seed}
        return Measurement(what, measure)


def growing_split(graph: Graph, percent: int, seed: int) -> NodeSplit:
    """`percent` of the labelled nodes for training, and always the same fifth for testing.

    Every class has a training node, as long as there is room: a class that nobody has seen would
    measure the luck of the draw.
    """
    side = TrainingSide(graph)
    labels = side.labels
    order = np.random.default_rng([seed, 20]).permutation(side.labelled)
    cut = round(TESTED * len(order))
    test, rest = order[:cut], order[cut:]
    _, firsts = np.unique(labels[rest], return_index=True)
    ordered = np.concatenate([rest[np.sort(firsts)], np.delete(rest, firsts)])
    return NodeSplit(ordered[: max(1, round(percent / 100 * len(order)))], test, seed)
