"""How well held-out links are told from non-links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from xtcl.graph.link_split import LinkSplit
from xtcl.report.page.facts import RunFacts, answer_of
from xtcl.tasks.answers import LinkAnswer
from xtcl.tasks.metrics import auc, average_precision

if TYPE_CHECKING:
    from xtcl.estimator import XTCL

BINS = 20
LISTED = 8
"""Pairs of a kind that are listed."""


@dataclass(frozen=True)
class Pair:
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
    missed: tuple[Pair, ...]
    surprising: tuple[Pair, ...]


def link_test(model: XTCL, facts: RunFacts) -> LinkTest | None:
    """None for a run for nodes, or where no link was held out."""
    answer, split = answer_of(model), model._split
    if not isinstance(answer, LinkAnswer) or not isinstance(split, LinkSplit):
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
    counts, _ = np.histogram(expit(scores), bins=BINS, range=(0.0, 1.0))
    return tuple((counts / len(scores)).tolist())


def _pairs(
    facts: RunFacts, pairs: np.ndarray, scores: np.ndarray, order: np.ndarray
) -> tuple[Pair, ...]:
    return tuple(
        Pair(facts.name(pairs[0, at]), facts.name(pairs[1, at]), float(expit(scores[at])))
        for at in order[:LISTED]
    )
