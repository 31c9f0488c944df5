"""Evaluation: the score of one method on several splits of one graph."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from xtcl.baselines.method import Method
from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, check_no_leak, link_split, node_split
from xtcl.progress import Progress
from xtcl.tasks import make_task
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.training_data import training_data


@dataclass(frozen=True)
class Evaluation:
    """A method's scores over splits, in percent.

    `stderr` is the standard error of the mean; None for a single split.
    """

    dataset: str
    task: str
    method: str
    metric: str
    mean: float
    stderr: float | None
    runs: list[float]
    seeds: list[int]
    seconds: list[float]

    @classmethod
    def of(
        cls, dataset: str, task: str, method: str, done: Mapping[int, tuple[float, float]]
    ) -> Evaluation:
        """From the score in percent and the seconds of each seed."""
        seeds = sorted(done)
        scores = [done[seed][0] for seed in seeds]
        error = standard_error(scores)
        return cls(
            dataset=dataset,
            task=task,
            method=method,
            metric=make_task(task).metric,
            mean=round(float(np.mean(scores)), 4),
            stderr=None if error is None else round(error, 4),
            runs=scores,
            seeds=seeds,
            seconds=[done[seed][1] for seed in seeds],
        )

    def to_json(self) -> dict[str, object]:
        """The object that `xtcl evaluate --json` prints."""
        return asdict(self)


PAPER_SHARE = {"nodes": 0.1, "links": 0.6}
"""The share of the labels, or of the links, that the paper trains on."""


def make_split(
    graph: Graph, task: str, seed: int, train: float | None = None
) -> NodeSplit | LinkSplit:
    """A split of the kind that a task needs, with the paper's share for training by default."""
    make = link_split if task == "links" else node_split
    split = make(graph, PAPER_SHARE[task] if train is None else train, seed=seed)
    check_no_leak(graph, split)
    return split


def score_method(
    graph: Graph,
    split: NodeSplit | LinkSplit,
    method: Method,
    *,
    seed: int,
    device: torch.device,
    progress: Progress,
) -> tuple[float, float]:
    """The method's metric on one split, as a fraction, and the seconds it took to fit."""
    task = make_task(split.kind)
    start = time.perf_counter()
    answer = method.fit(
        training_data(graph, split), task.name, seed=seed, device=device, progress=progress
    )
    seconds = time.perf_counter() - start
    return score_test_side(answer, graph, split)[task.metric], seconds


def evaluate(
    graph: Graph,
    task: str,
    method: Method,
    *,
    splits: int = 5,
    seed: int = 0,
    train: float | None = None,
    device: torch.device | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Fit and score `method` on splits `seed` to `seed + splits - 1`; see `make_split`."""
    if splits < 1:
        raise UsageError(f"splits={splits} must be at least 1.")
    done = {}
    for number in range(seed, seed + splits):
        score, seconds = score_method(
            graph,
            make_split(graph, task, number, train),
            method,
            seed=number,
            device=device or torch.device("cpu"),
            progress=progress or Progress(),
        )
        done[number] = (round(100 * score, 4), round(seconds, 3))
    return Evaluation.of(graph.name, task, method.name, done)


def standard_error(values: Sequence[float] | np.ndarray) -> float | None:
    """The standard error of the mean; None for a single value."""
    from scipy.stats import sem  # half a second, which a fit need not wait for

    return float(sem(values)) if len(values) > 1 else None
