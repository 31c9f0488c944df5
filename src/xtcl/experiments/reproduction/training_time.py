"""Figure: the time to learn which nodes are alike, against the size of the graph."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
import torch

from xtcl.baselines.naive_xgboost import NaiveXGBoost
from xtcl.experiments.reproduction.experiment import (
    Bench,
    Experiment,
    Measurement,
    Plain,
    Scope,
    chosen,
)
from xtcl.graph.datasets import random_graph
from xtcl.relations.view import TrainingView
from xtcl.sampling.fold import Fold
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.registry import make_task
from xtcl.tasks.training_side import TrainingSide

SYSTEMS = ("xgsampler", "naive-xgboost")
SIZES = (1000, 2000, 4000, 8000, 16000)
QUICK_SIZES = (1000, 2000, 4000)
REPEATS = 3
LABELLED = 0.5
"""The paper does not say how many nodes have labels; with half, pairs grow as the square of V."""


class TrainingTime(Experiment):
    """XGSampler and Naive XGBoost on random graphs with 2V links, labels and attributes random.

    Both get the same folds of the same pairs, and their time includes the relations. What the
    system then does with the scores (positives, training) is the same for both and not timed. A
    first fit on a small graph, thrown away, warms up libraries and the device.
    """

    name: ClassVar[str] = "time"
    title: ClassVar[str] = "Seconds to learn which nodes are alike"

    def measurements(self, scope: Scope) -> list[Measurement]:
        """Small graphs first."""
        chosen("data set", scope.datasets, ("random",))
        return [
            self.measurement(size, system, repeat)
            for size in (QUICK_SIZES if scope.quick else SIZES)
            for repeat in scope.seeds(REPEATS)
            for system in chosen("method", scope.methods, SYSTEMS)
        ]

    def measurement(self, size: int, system: str, repeat: int) -> Measurement:
        """One fit."""

        def measure(bench: Bench) -> Plain:
            learn(system, *pairs_of(200, repeat, bench.device))
            view, folds = pairs_of(size, repeat, bench.device)
            start = time.perf_counter()
            learn(system, view, folds)
            return {"seconds": round(time.perf_counter() - start, 4)}

        return Measurement({"size": size, "system": system, "repeat": repeat}, measure)


def pairs_of(size: int, seed: int, device: torch.device) -> tuple[TrainingView, list[Fold]]:
    """What both systems learn from."""
    graph = random_graph(size, seed=seed)
    known = np.random.default_rng([seed, 30]).random(size) < LABELLED
    labels = np.where(known, TrainingSide(graph).labels, -1)
    view = TrainingView.of(graph.with_labels(labels), known, device)
    return view, make_task("nodes").folds(view, 0, np.random.default_rng(seed))


def learn(system: str, view: TrainingView, folds: list[Fold]) -> None:
    """Fit one system, to the end of what its device was asked for."""
    if system == "xgsampler":
        XGSampler().fit(view, folds)
    else:
        NaiveXGBoost().fit(view, folds)
    if view.device.type == "cuda":
        torch.cuda.synchronize(view.device)
