"""How right the classes of held-out nodes are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xtcl.report.page.facts import RunFacts
from xtcl.report.page.reliability import Reliability, reliability
from xtcl.report.page.share_interval import wilson
from xtcl.sampling.intervals import Range
from xtcl.tasks.metrics import node_metrics

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
        interval=wilson(right, len(true)),
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
