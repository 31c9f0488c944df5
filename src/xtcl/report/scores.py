"""Scores on the test side: held-out nodes with their reliability, and held-out links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit
from scipy.stats import binomtest

from xtcl.graph.splits import LinkSplit
from xtcl.report.facts import RunFacts, predictions_of
from xtcl.sampling.weights import Range
from xtcl.tasks.metrics import auc, average_precision, node_metrics
from xtcl.tasks.results import LinkScores

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


MAX_MATRIX_CLASSES = 12
"""Classes that a confusion matrix has room for."""

_OTHER_CLASSES = "others"
_RELIABILITY_BINS = 10
_SCORE_BINS = 20
_PAIRS_LISTED = 8


@dataclass(frozen=True)
class ClassScore:
    """Held-out nodes of a class, and its recall and precision; None where there is no node."""

    name: str
    count: int
    recall: float | None
    precision: float | None


@dataclass(frozen=True)
class ReliabilityBin:
    """The nodes whose prediction has a probability from `low` to `high`."""

    low: float
    high: float
    count: int
    mean_confidence: float
    accuracy: float


@dataclass(frozen=True)
class Reliability:
    """The bins that are not empty, and the expected calibration error.

    The error `ece` is the mean of |mean_confidence - accuracy| over the bins, weighted by nodes.
    """

    bins: tuple[ReliabilityBin, ...]
    ece: float
    mean_confidence: float
    accuracy: float


@dataclass(frozen=True)
class NodeTest:
    """Scores on held-out nodes.

    `majority_accuracy` is the accuracy of always predicting the largest class of the training
    labels. `roc_auc` and `average_precision` are None unless there are two classes. `confusion`
    [true][predicted] counts nodes.
    """

    count: int
    accuracy: float
    interval: Range
    majority_accuracy: float
    balanced_accuracy: float
    macro_f1: float
    log_loss: float
    roc_auc: float | None
    average_precision: float | None
    names: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    scores: tuple[ClassScore, ...]
    reliability: Reliability


@dataclass(frozen=True)
class ScoredPair:
    """Two nodes and the score of a link between them."""

    node: str
    other: str
    score: float


@dataclass(frozen=True)
class LinkTest:
    """Scores on held-out links, with the shares of links and of non-links by score."""

    links: int
    non_links: int
    auc: float
    average_precision: float
    link_shares: tuple[float, ...]
    non_link_shares: tuple[float, ...]
    missed: tuple[ScoredPair, ...]
    surprising: tuple[ScoredPair, ...]


def node_test(facts: RunFacts) -> NodeTest | None:
    """Scores on held-out nodes; None without held-out nodes or without classes."""
    if facts.probabilities is None or not len(facts.tested):
        return None
    true, predicted = facts.truth[facts.tested], facts.predicted[facts.tested]
    num_classes = len(facts.classes)
    matrix = np.zeros((num_classes, num_classes), dtype=np.int64)
    np.add.at(matrix, (true, predicted), 1)
    names, shortened = _shortened(facts.classes, matrix)
    metrics = node_metrics(true, predicted, facts.probabilities[facts.tested])
    right = int((true == predicted).sum())
    largest = np.bincount(facts.truth[facts.trained], minlength=num_classes).argmax()
    return NodeTest(
        count=len(true),
        accuracy=metrics["accuracy"],
        interval=wilson_interval(right, len(true)),
        majority_accuracy=float((true == largest).mean()),
        balanced_accuracy=metrics["balanced_accuracy"],
        macro_f1=metrics["macro_f1"],
        log_loss=metrics["log_loss"],
        roc_auc=metrics.get("roc_auc"),
        average_precision=metrics.get("average_precision"),
        names=names,
        confusion=tuple(tuple(row) for row in shortened.tolist()),
        scores=_class_scores(facts.classes, matrix),
        reliability=reliability(facts.confidence[facts.tested], true == predicted),
    )


def _class_scores(classes: tuple[str, ...], matrix: np.ndarray) -> tuple[ClassScore, ...]:
    """The classes with held-out nodes, sorted ascending by recall."""
    hits, true, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    scores = [
        ClassScore(
            name,
            int(true[code]),
            float(hits[code] / true[code]) if true[code] else None,
            float(hits[code] / predicted[code]) if predicted[code] else None,
        )
        for code, name in enumerate(classes)
    ]
    return tuple(sorted((s for s in scores if s.count), key=lambda s: s.recall or 0.0))


def _shortened(names: tuple[str, ...], matrix: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """The matrix of the largest classes, with all others summed up as the last."""
    if len(names) <= MAX_MATRIX_CLASSES:
        return names, matrix
    last = MAX_MATRIX_CLASSES - 1
    kept = np.sort(np.argsort(-matrix.sum(axis=1), kind="stable")[:last])
    place = np.full(len(names), last)
    place[kept] = np.arange(last)
    short = np.zeros((MAX_MATRIX_CLASSES, MAX_MATRIX_CLASSES), dtype=np.int64)
    np.add.at(short, (place[:, None], place[None, :]), matrix)
    return (*(names[code] for code in kept), _OTHER_CLASSES), short


def reliability(confidence: np.ndarray, is_right: np.ndarray) -> Reliability:
    """Confidence against accuracy in ten bins of equal width (Guo and others, ICML 2017).

    Needs at least one node.
    """
    place = np.minimum((confidence * _RELIABILITY_BINS).astype(int), _RELIABILITY_BINS - 1)
    bins = []
    for at in np.unique(place):
        inside = place == at
        bins.append(
            ReliabilityBin(
                low=float(at / _RELIABILITY_BINS),
                high=float((at + 1) / _RELIABILITY_BINS),
                count=int(inside.sum()),
                mean_confidence=float(confidence[inside].mean()),
                accuracy=float(is_right[inside].mean()),
            )
        )
    gaps = sum(each.count * abs(each.mean_confidence - each.accuracy) for each in bins)
    return Reliability(
        tuple(bins), gaps / len(confidence), float(confidence.mean()), float(is_right.mean())
    )


def wilson_interval(right: int, count: int) -> Range:
    """The 95 % interval of a share (Wilson, 1927); sound for few nodes, and near 0 and 1."""
    if not count:
        return 0.0, 1.0
    interval = binomtest(right, count).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def link_test(model: XTCL, facts: RunFacts) -> LinkTest | None:
    """Scores on held-out links; None for a run for nodes, or without held-out links."""
    answer, split = predictions_of(model), model.split_
    if not isinstance(answer, LinkScores) or not isinstance(split, LinkSplit):
        return None
    scores, others = answer.score(split.test), answer.score(split.test_negatives)
    if not len(scores) or not len(others):
        return None
    lowest, highest = np.argsort(scores, kind="stable"), np.argsort(-others, kind="stable")
    return LinkTest(
        links=len(scores),
        non_links=len(others),
        auc=auc(scores, others),
        average_precision=average_precision(scores, others),
        link_shares=_shares(scores),
        non_link_shares=_shares(others),
        missed=_first_pairs(facts, split.test, scores, lowest),
        surprising=_first_pairs(facts, split.test_negatives, others, highest),
    )


def _shares(scores: np.ndarray) -> tuple[float, ...]:
    counts, _ = np.histogram(expit(scores), bins=_SCORE_BINS, range=(0.0, 1.0))
    return tuple((counts / len(scores)).tolist())


def _first_pairs(
    facts: RunFacts, pairs: np.ndarray, scores: np.ndarray, order: np.ndarray
) -> tuple[ScoredPair, ...]:
    return tuple(
        ScoredPair(facts.name(pairs[0, at]), facts.name(pairs[1, at]), float(expit(scores[at])))
        for at in order[:_PAIRS_LISTED]
    )
