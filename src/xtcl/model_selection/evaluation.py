"""Evaluation: the scores of methods on several splits of one graph."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, overload

import numpy as np
import torch

from xtcl.baselines.custom_method import as_method
from xtcl.baselines.method import Method
from xtcl.errors import DataError, UsageError, known_names
from xtcl.graph import Graph, LinkSplit, NodeSplit, as_graph, check_no_leak, link_split, node_split
from xtcl.graph.convert import is_of
from xtcl.graph.pairs import generator
from xtcl.progress import PrefixedProgress, Progress, check_progress
from xtcl.tasks import TASKS, make_task
from xtcl.tasks.metrics import METRICS, check_metric, displayed_score, score_test_side
from xtcl.tasks.training_data import TrainingData, training_data


@dataclass(frozen=True)
class Spread:
    """Figures of the splits and their mean; `stderr` is its standard error, None for one split."""

    mean: float
    stderr: float | None
    runs: list[float]

    @classmethod
    def of(cls, runs: list[float]) -> Spread:
        """The mean and its error to four digits."""
        error = standard_error(runs)
        return cls(round(float(np.mean(runs)), 4), None if error is None else round(error, 4), runs)


@dataclass(frozen=True)
class Evaluation:
    """A method's scores over splits, in percent, but for log-loss.

    `mean`, `stderr` and `runs` are those of `metric`; `stderr` is the standard error of the mean,
    None for a single split. `metrics` has the same of every metric that all splits define.
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
    metrics: dict[str, Spread] = field(default_factory=dict)

    @classmethod
    def of(
        cls, dataset: str, task: str, method: str, done: Mapping[int, tuple[float, float]]
    ) -> Evaluation:
        """From the score in percent and the seconds of each seed."""
        seeds = sorted(done)
        spread = Spread.of([done[seed][0] for seed in seeds])
        seconds = [done[seed][1] for seed in seeds]
        metric = make_task(task).metric
        return cls(dataset, task, method, metric, **vars(spread), seeds=seeds, seconds=seconds)

    def to_json(self) -> dict[str, object]:
        """The object that `xtcl evaluate --json` prints; without `metrics` where none are known."""
        found = asdict(self)
        return found if self.metrics else {k: v for k, v in found.items() if k != "metrics"}


@dataclass(frozen=True)
class PairedDifference:
    """What `method` scores above the method `to` on the same splits, in points."""

    method: str
    to: str
    mean: float
    stderr: float | None
    runs: list[float]


@dataclass(frozen=True)
class MethodComparison:
    """Several methods on the same splits, and their differences to the first one."""

    dataset: str
    task: str
    metric: str
    methods: list[Evaluation]
    differences: list[PairedDifference]

    def to_json(self) -> dict[str, object]:
        """The object that `xtcl evaluate --json` prints for several methods."""
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
    scores, seconds = _all_scores(graph, split, method, seed, device, progress, data)
    return scores[TASKS[split.kind].metric], seconds


def _all_scores(
    graph: Graph,
    split: NodeSplit | LinkSplit,
    method: Method,
    seed: int,
    device: torch.device,
    progress: Progress,
    data: TrainingData | None = None,
) -> tuple[Mapping[str, float], float]:
    start = time.perf_counter()
    data = training_data(graph, split) if data is None else data
    answer = method.fit(data, split.kind, seed=seed, device=device, progress=progress)
    seconds = time.perf_counter() - start
    return score_test_side(answer, graph, split), seconds


@overload
def evaluate(
    method: Any,
    graph: Any,
    splits: int | NodeSplit | LinkSplit | Sequence[NodeSplit | LinkSplit] = 5,
    *,
    task: str | None = None,
    metric: str | None = None,
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
    metric: str | None = None,
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
      of `NodeSplit.from_masks`. A PyG `Data` is the split of its masks, `NodeSplit.from_pyg`.
    - `task` is "nodes" or "links"; it is needed for a number of splits of links.
    - `metric` is what `mean`, `stderr` and `runs` are of: accuracy (for links auc) by default, or
      balanced_accuracy, macro_f1, log_loss, and for two classes roc_auc and average_precision; for
      links average_precision, hits@20, hits@50, hits@100 and mrr. `metrics` has all of them.
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
    metric: str | None = None,
    seed: int = 0,
    train: float | None = None,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    options: dict[str, Any] = {"task": task, "metric": metric, "seed": seed, "train": train}
    found = compare([method], graph, splits, **options, device=device, progress=progress)
    return found.methods[0]


def compare(
    methods: Sequence[Any],
    graph: Any,
    splits: int | NodeSplit | LinkSplit | Sequence[NodeSplit | LinkSplit] = 5,
    *,
    task: str | None = None,
    metric: str | None = None,
    seed: int = 0,
    train: float | None = None,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> MethodComparison:
    """Fit and score several methods on the same splits, with paired differences to the first.

    The arguments are those of `evaluate`. The error of a paired difference is that of the mean
    over the splits, so that what makes one split harder for all methods is not in it.
    """
    generator(seed)  # refuses a seed that is none
    check_progress(progress)
    if isinstance(methods, str) or not methods:
        raise UsageError('methods must be a list of methods, as ["xtcl-gcn", "gcn"].')
    whole = as_graph(graph, warn_masks=False)
    made: Iterable[NodeSplit | LinkSplit]
    if isinstance(splits, (int, np.integer)):
        named = [getattr(method, "task", None) for method in methods]  # of an XTCL
        task = task or next((name for name in named if isinstance(name, str)), "nodes")
        if splits < 1:
            raise UsageError(f"splits={splits} must be at least 1.")
        if task == "nodes" and is_of(graph, "torch_geometric") and "train_mask" in graph:
            warnings.warn(
                "The splits are made here, so train_mask of the data is not read: for the split of "
                "its masks give splits=[NodeSplit.from_pyg(data)], or splits=data.",
                stacklevel=4,
            )
        made = (make_split(whole, task, seed + place, train) for place in range(splits))
    else:
        given = list(splits) if isinstance(splits, Sequence) else [splits]
        listed = [NodeSplit.from_pyg(x) if is_of(x, "torch_geometric") else x for x in given]
        task = _task_of(listed, task)
        for number, split in enumerate(listed):
            check_no_leak(whole, split)
            if not split.test.size:
                raise UsageError(
                    f"Split {number} has no test side to score on: give splits of node_split or "
                    "link_split, or NodeSplit.from_masks with a test mask."
                )
        made = listed
    chosen = [as_method(method) for method in methods]
    known = make_task(task)
    names = [method.name for method in chosen]
    for method in chosen:
        method.check_task(known.name)
        if names.count(method.name) > 1:
            raise UsageError(
                f"Two methods are called '{method.name}': name one with register_method, or leave "
                "it out."
            )
    metric = metric or known.metric
    check_metric(metric, known.name, whole)
    done: dict[str, dict[int, tuple[Mapping[str, float], float]]] = {name: {} for name in names}
    listener = progress or Progress()
    for number, split in enumerate(made, start=seed):
        for method in chosen:
            alone = len(chosen) == 1
            shown = listener if alone else PrefixedProgress(listener, f"{method.name}: ")
            where = torch.device(device or "cpu")
            scores, seconds = _all_scores(whole, split, method, number, where, shown)
            if metric not in scores:
                raise DataError(
                    f"Metric '{metric}' is not defined on split {number}: the test nodes are all "
                    "of one class. Test on more nodes, or choose another metric."
                )
            done[method.name][number] = scores, seconds
    found = [_evaluation(whole.name, known.name, metric, *each) for each in done.items()]
    return MethodComparison(
        dataset=whole.name,
        task=known.name,
        metric=metric,
        methods=found,
        differences=[_paired(each, found[0]) for each in found[1:]],
    )


def _evaluation(
    dataset: str,
    task: str,
    metric: str,
    method: str,
    done: Mapping[int, tuple[Mapping[str, float], float]],
) -> Evaluation:
    """From all scores, as fractions, and the seconds of each seed."""
    scores = [each for each, _ in done.values()]
    spreads = {
        name: Spread.of([displayed_score(name, each[name]) for each in scores])
        for name in METRICS[task]
        if all(name in each for each in scores)
    }
    return Evaluation(
        dataset=dataset,
        task=task,
        method=method,
        metric=metric,
        **vars(spreads[metric]),
        seeds=list(done),
        seconds=[round(seconds, 3) for _, seconds in done.values()],
        metrics=spreads,
    )


def _paired(method: Evaluation, first: Evaluation) -> PairedDifference:
    pairs = zip(method.runs, first.runs, strict=True)
    spread = Spread.of([round(own - other, 4) for own, other in pairs])
    return PairedDifference(method.method, first.method, **vars(spread))


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
