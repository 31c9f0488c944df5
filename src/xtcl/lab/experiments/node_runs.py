"""One method on one split of nodes: its scores, its seconds, and what it chose."""

from __future__ import annotations

import time
from dataclasses import asdict

from xtcl.baselines.method import Method, XTCLMethod
from xtcl.config import to_builtin
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit
from xtcl.lab.experiments.experiment import Context, Plain
from xtcl.tasks.blend import Blend
from xtcl.tasks.metrics import displayed_score, score_test_side
from xtcl.tasks.results import Predictions
from xtcl.tasks.training_data import TrainingData, training_data


def fit_timed(
    system: Method, graph: Graph, split: NodeSplit, seed: int, context: Context
) -> tuple[Predictions, TrainingData, float]:
    """What a method predicts, what it learned from, and the seconds of its fit."""
    start = time.perf_counter()
    data = training_data(graph, split)
    answer = system.fit(data, "nodes", seed=seed, device=context.device, progress=context.progress)
    return answer, data, time.perf_counter() - start


def measure_nodes(
    system: Method, graph: Graph, split: NodeSplit, seed: int, context: Context
) -> Plain:
    """The record of one run.

    `figure` is the accuracy in percent, `metrics` has it with the others. XTCL's have their recipe.
    Where predictions say in an attribute `choice` what hidden labels chose, that is kept, too.
    """
    answer, data, seconds = fit_timed(system, graph, split, seed, context)
    scores = score_test_side(answer, graph, split)
    metrics = {name: displayed_score(name, score) for name, score in scores.items()}
    found: Plain = {
        "figure": metrics["accuracy"],
        "metrics": metrics,
        "seconds": round(seconds, 3),
        "train_labels": len(data.labelled),
    }
    if isinstance(system, XTCLMethod):
        found["recipe"] = to_builtin(asdict(system.recipe_for("nodes")))
    choice = getattr(answer, "choice", None)
    if isinstance(choice, Blend):
        found["choice"] = plain_choice(choice)
    return found


def plain_choice(choice: Blend) -> Plain:
    """How many labels were hidden, and of every candidate its weight and what they said of it."""
    return {
        "hidden_labels": choice.num_hidden,
        "candidates": [
            {
                "name": member.name,
                "weight": round(member.weight, 4),
                "log_loss": round(member.log_loss, 4),
                "accuracy": round(100 * member.accuracy, 4),
            }
            for member in choice.members
        ],
    }
