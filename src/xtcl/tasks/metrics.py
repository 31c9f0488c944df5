"""Metrics of node classification and link prediction, as fractions from 0 to 1 except log-loss.

Link metrics take the scores of true links and of non-links. Only the order of scores matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from xtcl.errors import DataError, UsageError, first_few, known_names
from xtcl.graph import Graph, LinkSplit, NodeSplit
from xtcl.tasks.results import LinkScores, NodePredictions, Predictions
from xtcl.tasks.training_data import Split, TrainingData

_Floats = NDArray[np.float64]

METRICS = {
    "nodes": (
        *("accuracy", "balanced_accuracy", "macro_f1", "log_loss"),
        *("roc_auc", "average_precision"),
    ),
    "links": ("auc", "average_precision", "hits@20", "hits@50", "hits@100", "mrr"),
}
"""The metrics of each task. The last two of nodes are for two classes."""
_OF_TWO_CLASSES = METRICS["nodes"][-2:]

METRIC_TITLES = {
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro F1",
    "log_loss": "log loss",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
}
"""How people read the name of a metric, where it differs."""

# A class without a training row has probability 0; it is clipped to this, as in scikit-learn.
_MIN_PROBABILITY = float(np.finfo(np.float64).eps)


def accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Share of nodes whose class is right."""
    true, predicted = _classes(y_true, y_pred)
    return float(np.mean(true == predicted))


def balanced_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mean recall of the classes that truly occur, as in scikit-learn."""
    true, predicted = _classes(y_true, y_pred)
    _, own, members = np.unique(true, return_inverse=True, return_counts=True)
    return float(np.mean(np.bincount(own, weights=true == predicted) / members))


def base_rate(y_true: ArrayLike) -> float:
    """Share of the largest class: the accuracy of naming it for every node."""
    true, _ = _classes(y_true, y_true)
    return float(np.unique(true, return_counts=True)[1].max() / len(true))


def macro_f1(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mean over the classes that occur, true or predicted, of F1 = 2 TP / (2 TP + FP + FN)."""
    from sklearn.metrics import f1_score

    true, predicted = _classes(y_true, y_pred)
    return float(f1_score(true, predicted, average="macro", zero_division=0.0))


def log_loss(y_true: ArrayLike, proba: ArrayLike) -> float:
    """Mean of -log p(true class), natural logarithm; column c of `proba` belongs to class c."""
    true = np.asarray(y_true)
    probability = np.asarray(proba, dtype=np.float64)
    if probability.ndim != 2 or len(probability) != len(true) or not len(true):
        raise DataError(
            f"The probabilities have shape {probability.shape}; "
            f"pass one row for each of the {len(true)} nodes, of which there must be one or more."
        )
    outside = np.flatnonzero((true < 0) | (true >= probability.shape[1]))
    if outside.size:
        raise DataError(
            f"Nodes at {first_few(outside)} have a class without a column of probabilities; "
            f"pass more than {probability.shape[1]} columns, one for each class."
        )
    return float(
        -np.log(probability[np.arange(len(true)), true].clip(_MIN_PROBABILITY, 1.0)).mean()
    )


def auc(pos_scores: ArrayLike, neg_scores: ArrayLike) -> float:
    """Probability that a link scores higher than a non-link; ties count half."""
    pos, neg = _pos_and_neg(pos_scores, neg_scores)
    return device_auc(torch.tensor(pos), torch.tensor(neg))


def device_auc(pos: Tensor, neg: Tensor) -> float:
    """The AUC of finite scores, on their device. Cost (n + m) log m for m non-links.

    Early stopping computes it every few epochs. scikit-learn sorts all scores and computes the
    whole curve.
    """
    ascending = neg.sort().values
    below = torch.searchsorted(ascending, pos) + torch.searchsorted(ascending, pos, right=True)
    return float(below.double().mean()) / (2 * len(neg))


def average_precision(pos_scores: ArrayLike, neg_scores: ArrayLike) -> float:
    """Mean precision at each new recall level, tied scores taken together."""
    from sklearn.metrics import average_precision_score

    pos, neg = _pos_and_neg(pos_scores, neg_scores)
    truth = np.repeat([1.0, 0.0], [len(pos), len(neg)])
    return float(average_precision_score(truth, np.concatenate([pos, neg])))


def hits_at_k(pos_scores: ArrayLike, neg_scores: ArrayLike, k: int) -> float:
    """Share of links that score strictly above the k-th best of a shared pool of non-links.

    With fewer than k non-links every link is a hit. The rule of the Open Graph Benchmark (Hu et
    al., NeurIPS 2020).
    """
    if k < 1:
        raise UsageError(f"k is {k}; Hits@k needs k of at least 1.")
    pos, neg = _links(pos_scores), _scores(neg_scores, "non-links")
    if len(neg) < k:
        return 1.0
    return float(np.mean(pos > np.partition(neg, len(neg) - k)[len(neg) - k]))


def mean_reciprocal_rank(pos_scores: ArrayLike, neg_scores: ArrayLike) -> float:
    """Mean of 1 / rank of each link among non-links: a shared pool [m], or a row for each [n, m].

    Ties get the realistic rank, half-way between the optimistic and the pessimistic one. Cost
    (n + m) log m for a pool, n m for rows.
    """
    pos, neg = _links(pos_scores), np.asarray(neg_scores, dtype=np.float64)
    if neg.ndim == 2:
        if len(neg) != len(pos):
            raise DataError(
                f"There are {len(pos)} links but {len(neg)} rows of non-links; pass one row each."
            )
        neg = _scores(neg.ravel(), "non-links").reshape(neg.shape)
        better = (neg > pos[:, None]).sum(axis=1)
        tied = (neg == pos[:, None]).sum(axis=1)
    else:
        pool = np.sort(_scores(neg, "non-links"))
        up_to = np.searchsorted(pool, pos, side="right")
        better = len(pool) - up_to
        tied = up_to - np.searchsorted(pool, pos, side="left")
    return float(np.mean(1.0 / (1.0 + better + 0.5 * tied)))


def node_metrics(
    y_true: ArrayLike, y_pred: ArrayLike, proba: ArrayLike | None = None
) -> dict[str, float]:
    """Accuracy, balanced accuracy, macro F1 and, given probabilities, log-loss.

    With probabilities of two classes also ROC AUC and average precision. As in scikit-learn their
    positive class is the second one, of code 1, whichever is rarer. Where `y_true` has one class
    only they are not defined, and left out.
    """
    found = {
        "accuracy": accuracy(y_true, y_pred),
        "balanced_accuracy": balanced_accuracy(y_true, y_pred),
        "macro_f1": macro_f1(y_true, y_pred),
    }
    if proba is None:
        return found
    found["log_loss"] = log_loss(y_true, proba)
    probability, is_second = np.asarray(proba, dtype=np.float64), np.asarray(y_true) == 1
    if probability.shape[1] == 2 and is_second.any() and not is_second.all():
        pos, neg = probability[is_second, 1], probability[~is_second, 1]
        found |= {"roc_auc": auc(pos, neg), "average_precision": average_precision(pos, neg)}
    return found


def link_metrics(
    pos_scores: ArrayLike, neg_scores: ArrayLike, ks: Sequence[int] = (20, 50, 100)
) -> dict[str, float]:
    """AUC, average precision, Hits@k and MRR, all against one shared pool of non-links."""
    return {
        "auc": auc(pos_scores, neg_scores),
        "average_precision": average_precision(pos_scores, neg_scores),
        **{f"hits@{k}": hits_at_k(pos_scores, neg_scores, k) for k in ks},
        "mrr": mean_reciprocal_rank(pos_scores, neg_scores),
    }


def check_metric(metric: str, task: str, graph: Graph | None = None) -> None:
    """Refuse a metric that a task does not have, or that the classes of `graph` do not allow."""
    if metric not in METRICS[task]:
        raise UsageError(
            f"There is no metric '{metric}' of {task}.{known_names(metric, METRICS[task])}"
        )
    classes = 0 if graph is None else graph.num_classes
    if (
        task == "nodes"
        and metric in _OF_TWO_CLASSES
        and graph is not None
        and classes not in (0, 2)
    ):
        raise UsageError(
            f"Metric '{metric}' is for two classes, and graph '{graph.name}' has {classes}: choose "
            f"one of {', '.join(METRICS[task][: -len(_OF_TWO_CLASSES)])}."
        )


def displayed_score(metric: str, score: float) -> float:
    """The score as people read it, to four digits: in percent, but for log-loss."""
    return round(score if metric == "log_loss" else 100 * score, 4)


def _classes(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    true, predicted = np.asarray(y_true), np.asarray(y_pred)
    if true.ndim != 1 or true.shape != predicted.shape or not len(true):
        raise DataError(
            f"The true classes have shape {true.shape} and the predicted ones {predicted.shape}; "
            "pass two lists of the same length with at least one node."
        )
    return true, predicted


def _scores(values: ArrayLike, what: str) -> _Floats:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1:
        raise DataError(
            f"The scores of {what} have shape {scores.shape}; pass one list of numbers."
        )
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        raise DataError(
            f"The scores of {what} are not finite at {first_few(bad)}; "
            "look for an embedding whose training diverged."
        )
    return scores


def _links(values: ArrayLike) -> _Floats:
    scores = _scores(values, "links")
    if not len(scores):
        raise DataError("There are no links to score; hold out at least one link.")
    return scores


def _pos_and_neg(pos_scores: ArrayLike, neg_scores: ArrayLike) -> tuple[_Floats, _Floats]:
    pos, neg = _links(pos_scores), _scores(neg_scores, "non-links")
    if not len(neg):
        raise DataError("There are no non-links to compare with; sample at least one.")
    return pos, neg


def score_test_side(answer: Predictions, graph: Graph, split: Split) -> Mapping[str, float]:
    """The metrics of predictions on the test nodes or links of a split."""
    if isinstance(answer, NodePredictions) and isinstance(split, NodeSplit):
        labels = TrainingData(graph).labels
        nodes = min(len(labels), len(answer.probabilities))
        if len(split.test) and not 0 <= split.test[0] <= split.test[-1] < nodes:
            raise DataError(
                f"The split tests nodes {split.test[0]} to {split.test[-1]}, but graph "
                f"'{graph.name}' has nodes 0 to {nodes - 1}: use the graph it was made from."
            )
        return node_metrics(
            labels[split.test], answer.predictions[split.test], answer.probabilities[split.test]
        )
    if isinstance(answer, LinkScores) and isinstance(split, LinkSplit):
        return link_metrics(answer.score(split.test), answer.score(split.test_negatives))
    raise UsageError(f"A split of {split.kind} cannot score this answer; use one of its own kind.")
