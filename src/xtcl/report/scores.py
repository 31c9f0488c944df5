"""How well held-out links are told from non-links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from xtcl.graph.splits import LinkSplit
from xtcl.report.facts import RunFacts, predictions_of
from xtcl.sampling.bootstrap import Range
from xtcl.tasks.metrics import auc, average_precision, node_metrics
from xtcl.tasks.results import LinkScores

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


SCORE_BINS = 20


LISTED = 8
"""Pairs of a kind that are listed."""


@dataclass(frozen=True)
class ScoredPair:
    """Two nodes and the score of a link between them."""

    node: str
    other: str
    score: float


@dataclass(frozen=True)
class LinkTest:
    """The held-out part of a run for links: shares of links and of non-links by score."""

    links: int
    non_links: int
    auc: float
    average_precision: float
    link_shares: tuple[float, ...]
    non_link_shares: tuple[float, ...]
    missed: tuple[ScoredPair, ...]
    surprising: tuple[ScoredPair, ...]


def link_test(model: XTCL, facts: RunFacts) -> LinkTest | None:
    """None for a run for nodes, or where no link was held out."""
    answer, split = predictions_of(model), model.split_
    if not isinstance(answer, LinkScores) or not isinstance(split, LinkSplit):
        return None
    scores, others = answer.score(split.test), answer.score(split.test_negatives)
    if not len(scores) or not len(others):
        return None
    low, high = np.argsort(scores, kind="stable"), np.argsort(-others, kind="stable")
    return LinkTest(
        links=len(scores),
        non_links=len(others),
        auc=auc(scores, others),
        average_precision=average_precision(scores, others),
        link_shares=_shares(scores),
        non_link_shares=_shares(others),
        missed=_pairs(facts, split.test, scores, low),
        surprising=_pairs(facts, split.test_negatives, others, high),
    )


def _shares(scores: np.ndarray) -> tuple[float, ...]:
    counts, _ = np.histogram(expit(scores), bins=SCORE_BINS, range=(0.0, 1.0))
    return tuple((counts / len(scores)).tolist())


def _pairs(
    facts: RunFacts, pairs: np.ndarray, scores: np.ndarray, order: np.ndarray
) -> tuple[ScoredPair, ...]:
    return tuple(
        ScoredPair(facts.name(pairs[0, at]), facts.name(pairs[1, at]), float(expit(scores[at])))
        for at in order[:LISTED]
    )


MOST = 12
"""Classes that a matrix has room for."""


OTHERS = "others"


@dataclass(frozen=True)
class ClassScore:
    """Of the nodes of a class, how many were found; of those so called, how many were right."""

    name: str
    count: int
    found: float | None
    right: float | None


@dataclass(frozen=True)
class NodeTest:
    """The held-out part of a run for nodes; `confusion` [true][predicted] are nodes."""

    count: int
    accuracy: float
    interval: Range
    guess: float
    macro_f1: float
    log_loss: float
    names: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    scores: tuple[ClassScore, ...]
    reliability: Reliability


def node_test(facts: RunFacts) -> NodeTest | None:
    """None where nothing was held out, or nothing is said about classes."""
    if facts.chances is None or not len(facts.tested):
        return None
    true, predicted = facts.truth[facts.tested], facts.predicted[facts.tested]
    number = len(facts.classes)
    whole = np.zeros((number, number), dtype=np.int64)
    np.add.at(whole, (true, predicted), 1)
    names, matrix = _shortened(facts.classes, whole)
    figures = node_metrics(true, predicted, facts.chances[facts.tested])
    right = int((true == predicted).sum())
    largest = np.bincount(facts.truth[facts.trained], minlength=number).argmax()
    return NodeTest(
        count=len(true),
        accuracy=figures["accuracy"],
        interval=wilson_interval(right, len(true)),
        guess=float((true == largest).mean()),
        macro_f1=figures["macro_f1"],
        log_loss=figures["log_loss"],
        names=names,
        confusion=tuple(tuple(row) for row in matrix.tolist()),
        scores=_scores(facts.classes, whole),
        reliability=reliability(facts.sureness[facts.tested], true == predicted),
    )


def _scores(classes: tuple[str, ...], matrix: np.ndarray) -> tuple[ClassScore, ...]:
    """The classes that were tested, those found least often first."""
    hits, true, said = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    scores = [
        ClassScore(
            name,
            int(true[code]),
            float(hits[code] / true[code]) if true[code] else None,
            float(hits[code] / said[code]) if said[code] else None,
        )
        for code, name in enumerate(classes)
    ]
    return tuple(sorted((s for s in scores if s.count), key=lambda s: s.found or 0.0))


def _shortened(names: tuple[str, ...], matrix: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """The matrix of the largest classes, with the others taken together as the last."""
    if len(names) <= MOST:
        return names, matrix
    kept = np.sort(np.argsort(-matrix.sum(axis=1), kind="stable")[: MOST - 1])
    place = np.full(len(names), MOST - 1)
    place[kept] = np.arange(MOST - 1)
    short = np.zeros((MOST, MOST), dtype=np.int64)
    np.add.at(short, (place[:, None], place[None, :]), matrix)
    return (*(names[code] for code in kept), OTHERS), short


RELIABILITY_BINS = 10


@dataclass(frozen=True)
class Bin:
    """Nodes with a probability from `low` to `high`: what was said on average, and what was."""

    low: float
    high: float
    count: int
    said: float
    right: float


@dataclass(frozen=True)
class Reliability:
    """The bins that have nodes, and the expected calibration error: the mean gap, by nodes."""

    bins: tuple[Bin, ...]
    ece: float
    said: float
    right: float


def reliability(sureness: np.ndarray, is_right: np.ndarray) -> Reliability:
    """In ten bins of equal width (Guo and others, ICML 2017); at least one node."""
    place = np.minimum((sureness * RELIABILITY_BINS).astype(int), RELIABILITY_BINS - 1)
    bins = []
    for at in np.unique(place):
        inside = place == at
        said, right = float(sureness[inside].mean()), float(is_right[inside].mean())
        bins.append(
            Bin(
                float(at / RELIABILITY_BINS),
                float((at + 1) / RELIABILITY_BINS),
                int(inside.sum()),
                said,
                right,
            )
        )
    gap = sum(each.count * abs(each.said - each.right) for each in bins) / len(sureness)
    return Reliability(tuple(bins), gap, float(sureness.mean()), float(is_right.mean()))


Z = 1.96


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, 1927); sound for few nodes, and near 0 and 1."""
    if not count:
        return 0.0, 1.0
    share, wide = right / count, Z * Z / count
    middle = (share + wide / 2) / (1 + wide)
    half = Z * math.sqrt(share * (1 - share) / count + wide / (4 * count)) / (1 + wide)
    return max(0.0, middle - half), min(1.0, middle + half)
