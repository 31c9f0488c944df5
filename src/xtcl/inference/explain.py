"""Explanations: of a node's prediction and positives, and of a pair's probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from xtcl.errors import check_is_fitted
from xtcl.inference.predict import class_names
from xtcl.inference.tables import names_of, node_indices, round_probabilities
from xtcl.sampling.probabilities import PairExplanation, PairSignal
from xtcl.tasks.results import LinkScores, NodePredictions

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


NodeName = int | str


@dataclass(frozen=True)
class NodePrediction:
    """A node's predicted class with its probability; `known` is the label it was trained on.

    A model without classes, as for link prediction, has no `predicted` and no `probability`.
    """

    node: NodeName
    predicted: NodeName | None = None
    probability: float | None = None
    known: NodeName | None = None


@dataclass(frozen=True)
class PositiveEvidence:
    """Why two nodes are considered alike: `probability` is sigmoid(base + sum of the weights).

    `pattern` has the level of every relation, in the order of the fit. `link_score` is the score
    of the pair by the head of a link predictor.
    """

    node: NodePrediction
    other: NodePrediction
    probability: float
    base: float
    pattern: str
    signals: tuple[PairSignal, ...]
    is_positive: bool
    is_linked: bool
    link_score: float | None = None

    @property
    def reasons(self) -> tuple[PairSignal, ...]:
        """The relations that count in favour, the largest weight first."""
        return tuple(signal for signal in self.signals if signal.level and signal.weight > 0)


@dataclass(frozen=True)
class NodeExplanation:
    """A node's prediction, the probabilities of all classes, its positives and its neighbours."""

    node: NodePrediction
    chances: dict[str, float]
    positives: tuple[PositiveEvidence, ...]
    neighbours: tuple[NodePrediction, ...]
    positives_count: bool = True
    """Whether what predicts was trained on the positives."""


def explain_node(model: XTCL, u: int) -> NodeExplanation:
    """Explain the node with index `u`."""
    lookup = PredictionLookup(model)
    graph = model.training_data_.graph
    (row,) = node_indices(model, [u]).tolist()
    chances = {}
    if lookup.probabilities is not None:
        rounded = round_probabilities(lookup.probabilities[row]).tolist()
        chances = dict(zip(map(str, lookup.classes), rounded, strict=True))
    positives = model.positives_[row]
    return NodeExplanation(
        lookup.of(row),
        chances,
        tuple(explain_pair(model, row, v, lookup) for v in positives[positives >= 0].tolist()),
        tuple(lookup.of(v) for v in graph.adjacency[[row]].indices.tolist()),
        positives_count(model),
    )


def positives_count(model: XTCL) -> bool:
    """Whether what predicts was trained on `positives_`: hidden labels may choose otherwise."""
    choice = model.choice_
    return choice is None or choice.reads_sampler(choice.chosen, model.recipe_.strategy)


def explain_pair(
    model: XTCL, u: int, v: int, lookup: PredictionLookup | None = None
) -> PositiveEvidence:
    """Explain the pair (u, v), with the thresholds of the row of `u`."""
    explained: PairExplanation = model.explain(u, v)
    lookup = lookup or PredictionLookup(model)
    answer = model.fitted_task_.answer
    levels = {signal.relation: signal.level for signal in explained.signals}
    score = None
    if isinstance(answer, LinkScores):
        score = _round(float(expit(answer.score(np.array([[u], [v]]))[0])))
    return PositiveEvidence(
        lookup.of(u),
        lookup.of(v),
        _round(explained.probability),
        explained.base,
        "".join(str(levels[relation.name]) for relation in model.sampler_.relations_),
        explained.signals,
        bool((model.positives_[u] == v).any()),
        bool(model.training_data_.graph.adjacency[u, v]),
        score,
    )


class PredictionLookup:
    """The predictions of a model by node index."""

    def __init__(self, model: XTCL) -> None:
        check_is_fitted(model)
        answer = model.fitted_task_.answer
        self.graph = model.training_data_.graph
        of_nodes = answer if isinstance(answer, NodePredictions) else None
        self.probabilities = None if of_nodes is None else of_nodes.probabilities
        self.predictions = None if of_nodes is None else of_nodes.predictions
        self.names = names_of(self.graph).tolist()
        self.classes = class_names(self.graph).tolist()

    def of(self, node: int) -> NodePrediction:
        """The prediction of one node."""
        labels = self.graph.labels
        known = None if labels is None or labels[node] < 0 else self.classes[labels[node]]
        if self.probabilities is None or self.predictions is None:
            return NodePrediction(self.names[node], known=known)
        code = int(self.predictions[node])
        probability = _round(self.probabilities[node, code])
        return NodePrediction(self.names[node], self.classes[code], probability, known)


def _round(probability: float) -> float:
    return float(round_probabilities(probability))
