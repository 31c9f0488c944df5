"""Evaluation: the score of one method on several splits of one graph."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

import numpy as np
import torch

from xtcl.baselines.custom_method import as_method
from xtcl.baselines.method import Method
from xtcl.errors import UsageError, known_names
from xtcl.graph import Graph, LinkSplit, NodeSplit, as_graph, check_no_leak, link_split, node_split
from xtcl.graph.pairs import generator
from xtcl.progress import Progress, check_progress
from xtcl.tasks import TASKS, make_task
from xtcl.tasks.metrics import score_test_side
from xtcl.tasks.training_data import TrainingData, training_data


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
    if task not in PAPER_SHARE:
        raise UsageError(f"There is no task '{task}'.{known_names(task, PAPER_SHARE)}")
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
    data: TrainingData | None = None,
) -> tuple[float, float]:
    """The method's metric on one split, as a fraction, and the seconds it took to fit.

    `data` are the training data of the split, where they are there already.
    """
    start = time.perf_counter()
    data = training_data(graph, split) if data is None else data
    answer = method.fit(data, split.kind, seed=seed, device=device, progress=progress)
    seconds = time.perf_counter() - start
    return score_test_side(answer, graph, split)[TASKS[split.kind].metric], seconds


@overload
def evaluate(
    method: Any,
    graph: Any,
    splits: int | NodeSplit | LinkSplit | Sequence[NodeSplit | LinkSplit] = 5,
    *,
    task: str | None = None,
    seed: int = 0,
    train: float | None = None,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> Evaluation: ...


@overload
def evaluate(
    graph: Graph,
    task: str,
    method: Any,
    *,
    splits: int = 5,
    seed: int = 0,
    train: float | None = None,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> Evaluation: ...


def evaluate(*given: Any, **options: Any) -> Evaluation:
    """Fit and score a method on several splits of a graph.

    - `method` is a name of `xtcl methods`; a function of the training data that returns
      predictions, an `XTCL`, a scikit-learn classifier or a `Method`, as for `register_method`.
    - `graph` is a Graph, or what `as_graph` takes.
    - `splits` is a number of splits, which `make_split` makes with the seeds `seed`, `seed + 1`
      and so on, with the share `train` to train on; or a split, or a list of splits, also those
      of `NodeSplit.from_masks`.
    - `task` is "nodes" or "links"; it is needed for a number of splits of links.
    - `seed` seeds the method on the first split, `seed + 1` on the next, and so on.
    - `device` is where the method computes, the CPU by default; `progress` receives its stages.

    The method gets the training data of each split alone. `evaluate(graph, task, method, splits=5)`
    is the same with the arguments in another order.
    """
    names = ("method", "graph", "splits")
    if given and isinstance(given[0], Graph):
        names = ("graph", "task", "method")
    if len(given) > len(names):
        raise TypeError(f"evaluate takes {len(names)} positional arguments: {', '.join(names)}.")
    return _evaluate(**dict(zip(names, given, strict=False)), **options)


def _evaluate(
    method: Any,
    graph: Any,
    splits: int | NodeSplit | LinkSplit | Sequence[NodeSplit | LinkSplit] = 5,
    *,
    task: str | None = None,
    seed: int = 0,
    train: float | None = None,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    generator(seed)  # refuses a seed that is none
    check_progress(progress)
    whole = as_graph(graph)
    made: Iterable[NodeSplit | LinkSplit]
    if isinstance(splits, (int, np.integer)):
        named = getattr(method, "task", None)  # of an XTCL
        task = task or (named if isinstance(named, str) else "nodes")
        if splits < 1:
            raise UsageError(f"splits={splits} must be at least 1.")
        made = (make_split(whole, task, seed + place, train) for place in range(splits))
    else:
        listed = list(splits) if isinstance(splits, Sequence) else [splits]
        task = _task_of(listed, task)
        for number, split in enumerate(listed):
            check_no_leak(whole, split)
            if not split.test.size:
                raise UsageError(
                    f"Split {number} has no test side to score on: give splits of node_split or "
                    "link_split, or NodeSplit.from_masks with a test mask."
                )
        made = listed
    chosen = as_method(method)
    chosen.check_task(make_task(task).name)
    done = {}
    for number, split in enumerate(made, start=seed):
        score, seconds = score_method(
            whole,
            split,
            chosen,
            seed=number,
            device=torch.device(device or "cpu"),
            progress=progress or Progress(),
        )
        done[number] = (round(100 * score, 4), round(seconds, 3))
    return Evaluation.of(whole.name, task, chosen.name, done)


def _task_of(splits: Sequence[NodeSplit | LinkSplit], task: str | None) -> str:
    """The task that given splits are for."""
    kinds = {getattr(split, "kind", type(split).__name__) for split in splits}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind not in ("nodes", "links"):
        raise UsageError(
            "splits must be a number, or splits of one kind: those of node_split or of link_split. "
            "A mask does not say which nodes test: give NodeSplit.from_masks(train, test)."
        )
    if task is not None and task != kind:
        raise UsageError(f"task='{task}' does not fit the splits, which are of {kind}.")
    return kind


evaluate.__signature__ = inspect.signature(_evaluate)  # type: ignore[attr-defined]


def standard_error(values: Sequence[float] | np.ndarray) -> float | None:
    """The standard error of the mean; None for a single value."""
    from scipy.stats import sem  # half a second, which a fit need not wait for

    return float(sem(values)) if len(values) > 1 else None
