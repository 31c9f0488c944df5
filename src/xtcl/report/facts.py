"""What a fitted model knows of its nodes, laid out for the parts of the page."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from xtcl.graph.graph import Graph
from xtcl.inference.links import known_links
from xtcl.inference.predict import class_names
from xtcl.inference.tables import names_of
from xtcl.tasks.results import NodePredictions, Predictions

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


@dataclass(frozen=True)
class RunFacts:
    """The data of the fit with the test side put back, and what the model says.

    `graph` has all links and no labels but those trained on; `truth` [V] has the codes of the test
    labels as well, -1 where nothing is known; `tested` are the nodes whose label was held out;
    `chances` [V, C] is None without classes.
    """

    graph: Graph
    classes: tuple[str, ...]
    truth: np.ndarray
    trained: np.ndarray
    tested: np.ndarray
    chances: np.ndarray | None
    embedding: np.ndarray
    positives: np.ndarray

    @classmethod
    def of(cls, model: XTCL) -> RunFacts:
        """Everything that `model` has."""
        side = model.training_data_.graph
        graph = replace(side.with_edges(known_links(model)), repairs=side.repairs)
        truth = np.full(side.num_nodes, -1) if side.labels is None else side.labels.copy()
        trained = np.flatnonzero(truth >= 0)
        held, split = model.test_labels_, model.split_
        if held is not None and split is not None:
            truth[split.test] = held
        answer = predictions_of(model)
        return cls(
            graph=graph,
            classes=tuple(escape_text(name) for name in class_names(side)),
            truth=truth,
            trained=trained,
            tested=np.setdiff1d(np.flatnonzero(truth >= 0), trained),
            chances=answer.probabilities if isinstance(answer, NodePredictions) else None,
            embedding=model.embedding_,
            positives=model.positives_,
        )

    @cached_property
    def names(self) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
        """The id of every node."""
        return names_of(self.graph)

    def name(self, node: int) -> str:
        """The id of one, as text to show."""
        return escape_text(self.names[node])

    @cached_property
    def predicted(self) -> np.ndarray:
        """The likeliest class code [V]; -1 without classes."""
        if self.chances is None:
            return np.full(self.graph.num_nodes, -1)
        return np.asarray(self.chances.argmax(axis=1))

    @cached_property
    def sureness(self) -> np.ndarray:
        """The chance [V] of the likeliest class; 0 without classes."""
        return np.zeros(len(self.truth)) if self.chances is None else self.chances.max(axis=1)


def predictions_of(model: XTCL) -> Predictions | None:
    """What the model answers; None for a task of the user's own, which has no head."""
    return None if model.head_ is None else model.fitted_task_.answer


POSITIVES = 5
"""The best of a node's positives, which are looked at and shown."""


BLOCK = 2**14
"""Pairs whose embeddings are multiplied at a time."""


def mean_cosine(facts: RunFacts) -> np.ndarray:
    """Mean cosine [V] of a node's embedding with its neighbours and best positives; 0 without."""
    edges = facts.graph.edges
    best = facts.positives[:, :POSITIVES]
    row, place = np.nonzero(best >= 0)
    u = np.concatenate([edges[0], edges[1], row])
    v = np.concatenate([edges[1], edges[0], best[row, place]])
    lengths = np.maximum(np.linalg.norm(facts.embedding, axis=1), 1e-12)
    total = np.zeros(len(lengths))
    for start in range(0, len(u), BLOCK):
        left, right = u[start : start + BLOCK], v[start : start + BLOCK]
        products = np.einsum("ij,ij->i", facts.embedding[left], facts.embedding[right])
        np.add.at(total, left, products / (lengths[left] * lengths[right]))
    return np.asarray(total / np.maximum(np.bincount(u, minlength=len(lengths)), 1))


LISTED = 10


CONFIDENT = 0.9
"""A probability from which on being wrong is worth a look."""


@dataclass(frozen=True)
class ReviewedNode:
    """One node: its class where known, what is predicted, its links and what they say."""

    node: str
    known: str
    predicted: str
    probability: float
    links: int
    said: str
    mean_cosine: float


@dataclass(frozen=True)
class NodesToReview:
    """Confidently wrong on held-out nodes, least certain, most alone; `sure_wrong` counts."""

    wrong: tuple[ReviewedNode, ...]
    unsure: tuple[ReviewedNode, ...]
    alone: tuple[ReviewedNode, ...]
    sure_wrong: int


def review_nodes(facts: RunFacts) -> NodesToReview:
    """The first few of each kind, the most striking first."""
    close, links = mean_cosine(facts), facts.graph.degrees
    neighbours = facts.graph.adjacency

    def looked(node: int) -> ReviewedNode:
        around = neighbours.indices[neighbours.indptr[node] : neighbours.indptr[node + 1]]
        return ReviewedNode(
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
    return NodesToReview(
        tuple(map(looked, wrong[:LISTED].tolist())),
        () if facts.chances is None else tuple(map(looked, unsure[:LISTED].tolist())),
        tuple(map(looked, alone[:LISTED].tolist())),
        int((facts.sureness[wrong] >= CONFIDENT).sum()),
    )


def _said(facts: RunFacts, around: np.ndarray) -> str:
    """The class that most neighbours with a known one have."""
    known = facts.truth[around]
    known = known[known >= 0]
    if not len(known):
        return ""
    ((code, times),) = Counter(known.tolist()).most_common(1)
    return f"{times} of {len(known)}: {facts.classes[code]}"


LONGEST = 80
"""Characters of an id that are shown; the beginning tells most ids apart."""


OVERRIDES = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def escape_text(value: object) -> str:
    """The text without what a page cannot show, cut where it is very long. Escaping comes later."""
    text = str(value)
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    return "".join("\ufffd" if _unfit(c) else c for c in text)


def _unfit(character: str) -> bool:
    """Control characters have no picture, half a surrogate pair cannot be written as UTF-8.

    Overrides of direction would show another id than the one that is there.
    """
    return unicodedata.category(character) in ("Cc", "Cs") or character in OVERRIDES
