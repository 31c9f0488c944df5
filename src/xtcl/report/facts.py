"""What the page needs to know about the nodes of a fit, and which nodes to review."""

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


POSITIVES_SHOWN = 5
"""How many of a node's positives, the best first, the page uses."""

CONFIDENT_PROBABILITY = 0.9
"""From this probability on a wrong prediction counts as confident."""

MAX_TEXT_LENGTH = 80
"""Characters of an id that are shown; the beginning identifies most ids."""

_NODES_LISTED = 10
_PAIRS_PER_BLOCK = 2**14
_DIRECTION_OVERRIDES = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True)
class RunFacts:
    """The data of a fit with the test side put back, and the predictions of the model.

    `graph` has all links, and only the labels that were trained on. `truth` [V] has the codes of
    the test labels too, -1 where no label is known. `tested` are the nodes whose label was held
    out. `probabilities` [V, C] and `predictions` [V] are None without classes.
    """

    graph: Graph
    classes: tuple[str, ...]
    truth: np.ndarray
    trained: np.ndarray
    tested: np.ndarray
    probabilities: np.ndarray | None
    predictions: np.ndarray | None
    embedding: np.ndarray
    positives: np.ndarray

    @classmethod
    def of(cls, model: XTCL) -> RunFacts:
        """Collect the facts of a fitted or loaded model."""
        training = model.training_data_.graph
        graph = replace(training.with_edges(known_links(model)), repairs=training.repairs)
        truth = training.labels
        truth = np.full(training.num_nodes, -1) if truth is None else truth.copy()
        trained = np.flatnonzero(truth >= 0)
        test_labels, split = model.test_labels_, model.split_
        if test_labels is not None and split is not None:
            truth[split.test] = test_labels
        answer = predictions_of(model)
        of_nodes = answer if isinstance(answer, NodePredictions) else None
        return cls(
            graph=graph,
            classes=tuple(escape_text(name) for name in class_names(training)),
            truth=truth,
            trained=trained,
            tested=np.setdiff1d(np.flatnonzero(truth >= 0), trained),
            probabilities=None if of_nodes is None else of_nodes.probabilities,
            predictions=None if of_nodes is None else of_nodes.predictions,
            embedding=model.embedding_,
            positives=model.positives_,
        )

    @cached_property
    def names(self) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
        """The id of every node."""
        return names_of(self.graph)

    def name(self, node: int) -> str:
        """The id of one node, as text to show."""
        return escape_text(self.names[node])

    @cached_property
    def predicted(self) -> np.ndarray:
        """The code [V] of the predicted class; -1 without classes."""
        if self.predictions is None:
            return np.full(self.graph.num_nodes, -1)
        return self.predictions

    @cached_property
    def confidence(self) -> np.ndarray:
        """The probability [V] of the predicted class; 0 without classes."""
        if self.probabilities is None:
            return np.zeros(len(self.truth))
        return np.asarray(self.probabilities[np.arange(len(self.truth)), self.predicted])


def predictions_of(model: XTCL) -> Predictions | None:
    """The predictions of a model; None for a custom task without a head."""
    return None if model.head_ is None else model.fitted_task_.answer


@dataclass(frozen=True)
class ReviewedNode:
    """One node; `neighbour_class` is the most frequent known class of its neighbours."""

    node: str
    known: str
    predicted: str
    probability: float
    links: int
    neighbour_class: str
    mean_cosine: float


@dataclass(frozen=True)
class NodesToReview:
    """Held-out nodes that are wrong, the least certain nodes, and those with the fewest links.

    `confident_errors` is the number of held-out nodes that are wrong with a high probability.
    """

    wrong: tuple[ReviewedNode, ...]
    uncertain: tuple[ReviewedNode, ...]
    fewest_links: tuple[ReviewedNode, ...]
    confident_errors: int


def review_nodes(facts: RunFacts) -> NodesToReview:
    """The first few nodes of each kind, the most striking first."""
    cosine, links = mean_cosine(facts), facts.graph.degrees
    adjacency = facts.graph.adjacency

    def reviewed(node: int) -> ReviewedNode:
        neighbours = adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]]
        return ReviewedNode(
            facts.name(node),
            facts.classes[facts.truth[node]] if facts.truth[node] >= 0 else "",
            facts.classes[facts.predicted[node]] if facts.predicted[node] >= 0 else "",
            float(facts.confidence[node]),
            int(links[node]),
            _most_frequent_class(facts, neighbours),
            float(cosine[node]),
        )

    wrong = facts.tested[facts.predicted[facts.tested] != facts.truth[facts.tested]]
    if facts.probabilities is None:
        wrong = wrong[:0]
    wrong = wrong[np.argsort(-facts.confidence[wrong], kind="stable")]
    uncertain = np.setdiff1d(np.arange(len(facts.truth)), facts.trained)
    uncertain = uncertain[np.argsort(facts.confidence[uncertain], kind="stable")]
    if facts.probabilities is None:
        uncertain = uncertain[:0]
    fewest_links = np.lexsort((cosine, links))
    return NodesToReview(
        tuple(map(reviewed, wrong[:_NODES_LISTED].tolist())),
        tuple(map(reviewed, uncertain[:_NODES_LISTED].tolist())),
        tuple(map(reviewed, fewest_links[:_NODES_LISTED].tolist())),
        int((facts.confidence[wrong] >= CONFIDENT_PROBABILITY).sum()),
    )


def _most_frequent_class(facts: RunFacts, nodes: np.ndarray) -> str:
    known = facts.truth[nodes]
    known = known[known >= 0]
    if not len(known):
        return ""
    ((code, times),) = Counter(known.tolist()).most_common(1)
    return f"{times} of {len(known)}: {facts.classes[code]}"


def mean_cosine(facts: RunFacts) -> np.ndarray:
    """Mean cosine [V] of a node's embedding with its neighbours and best positives.

    0 for a node that has neither.
    """
    edges = facts.graph.edges
    best = facts.positives[:, :POSITIVES_SHOWN]
    row, place = np.nonzero(best >= 0)
    u = np.concatenate([edges[0], edges[1], row])
    v = np.concatenate([edges[1], edges[0], best[row, place]])
    norms = np.maximum(np.linalg.norm(facts.embedding, axis=1), 1e-12)
    total = np.zeros(len(norms))
    for start in range(0, len(u), _PAIRS_PER_BLOCK):
        block = slice(start, start + _PAIRS_PER_BLOCK)
        left, right = u[block], v[block]
        products = np.einsum("ij,ij->i", facts.embedding[left], facts.embedding[right])
        np.add.at(total, left, products / (norms[left] * norms[right]))
    return np.asarray(total / np.maximum(np.bincount(u, minlength=len(norms)), 1))


def escape_text(value: object) -> str:
    """The text without characters that a page cannot show, cut if it is very long.

    HTML is escaped later, by the template.
    """
    text = str(value)
    if len(text) > MAX_TEXT_LENGTH:
        text = text[: MAX_TEXT_LENGTH - 1] + "…"
    return "".join("\ufffd" if _cannot_be_shown(c) else c for c in text)


def _cannot_be_shown(character: str) -> bool:
    """Control characters, half surrogate pairs, and overrides of the writing direction.

    Half a pair cannot be written as UTF-8. An override would make an id look like another one.
    """
    return unicodedata.category(character) in ("Cc", "Cs") or character in _DIRECTION_OVERRIDES
