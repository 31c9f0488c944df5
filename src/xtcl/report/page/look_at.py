"""Nodes that deserve a person's look."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from xtcl.report.page.closeness import closeness
from xtcl.report.page.facts import RunFacts

LISTED = 10
SURE = 0.9
"""A probability from which on being wrong is worth a look."""


@dataclass(frozen=True)
class Looked:
    """One node: its class where known, what is predicted, its links and what they say."""

    node: str
    known: str
    predicted: str
    probability: float
    links: int
    said: str
    closeness: float


@dataclass(frozen=True)
class LookAt:
    """Confidently wrong on held-out nodes, least certain, most alone; `sure_wrong` counts."""

    wrong: tuple[Looked, ...]
    unsure: tuple[Looked, ...]
    alone: tuple[Looked, ...]
    sure_wrong: int


def look_at(facts: RunFacts) -> LookAt:
    """The first few of each kind, the most striking first."""
    close, links = closeness(facts), facts.graph.degrees
    neighbours = facts.graph.adjacency

    def looked(node: int) -> Looked:
        around = neighbours.indices[neighbours.indptr[node] : neighbours.indptr[node + 1]]
        return Looked(
            facts.name(node),
            facts.classes[facts.truth[node]] if facts.truth[node] >= 0 else "",
            facts.classes[facts.predicted[node]] if facts.predicted[node] >= 0 else "",
            float(facts.sureness[node]),
            int(links[node]),
            _said(facts, around),
            float(close[node]),
        )

    wrong = facts.tested[facts.predicted[facts.tested] != facts.truth[facts.tested]]
    if facts.chances is None:
        wrong = wrong[:0]
    wrong = wrong[np.argsort(-facts.sureness[wrong], kind="stable")]
    unsure = np.setdiff1d(np.arange(len(facts.truth)), facts.trained)
    unsure = unsure[np.argsort(facts.sureness[unsure], kind="stable")]
    alone = np.lexsort((close, links))
    return LookAt(
        tuple(map(looked, wrong[:LISTED].tolist())),
        () if facts.chances is None else tuple(map(looked, unsure[:LISTED].tolist())),
        tuple(map(looked, alone[:LISTED].tolist())),
        int((facts.sureness[wrong] >= SURE).sum()),
    )


def _said(facts: RunFacts, around: np.ndarray) -> str:
    """The class that most neighbours with a known one have."""
    known = facts.truth[around]
    known = known[known >= 0]
    if not len(known):
        return ""
    ((code, times),) = Counter(known.tolist()).most_common(1)
    return f"{times} of {len(known)}: {facts.classes[code]}"
