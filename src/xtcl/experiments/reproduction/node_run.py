"""One node classifier on one split, scored on both sides of it."""

from __future__ import annotations

import time

from xtcl.baselines.ceiling_scl import with_truth
from xtcl.baselines.registry import make_method
from xtcl.errors import UsageError
from xtcl.experiments.reproduction.experiment import Bench, Plain
from xtcl.graph.graph import Graph
from xtcl.graph.node_split import NodeSplit
from xtcl.tasks.answers import NodeAnswer
from xtcl.tasks.scoring import score_on_test
from xtcl.tasks.training_side import TrainingSide, training_side


def node_run(graph: Graph, split: NodeSplit, method: str, seed: int, bench: Bench) -> Plain:
    """Accuracy in percent on test and training nodes, and the seconds of the fit."""
    side = training_side(graph, split)
    system = with_truth(make_method(method), graph)
    start = time.perf_counter()
    answer = system.fit(side, "nodes", seed=seed, device=bench.device, progress=bench.progress)
    seconds = time.perf_counter() - start
    figure = 100 * score_on_test(answer, graph, split)["accuracy"]
    return {
        "figure": round(figure, 4),
        "train": round(100 * training_accuracy(answer, side), 4),
        "seconds": round(seconds, 3),
    }


def training_accuracy(answer: object, side: TrainingSide) -> float:
    """The share of the labels it was fitted on that an answer gets right."""
    if not isinstance(answer, NodeAnswer):
        raise UsageError("Only a node classifier has an accuracy on its training nodes.")
    known = side.labelled
    return float((answer.probabilities[known].argmax(axis=1) == side.labels[known]).mean())
