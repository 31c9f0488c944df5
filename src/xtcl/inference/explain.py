"""Why a model says what it says: of a node, and of a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from xtcl.inference.predict import class_names
from xtcl.inference.tables import DIGITS, names_of
from xtcl.sampling.xgsampler import PairExplanation, PairSignal
from xtcl.tasks.results import LinkScores, NodePredictions

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


Name = int | str


@dataclass(frozen=True)
class NodePrediction:
    """What is thought of a node: a class with its chance; `known` where it was trained on.

    Without classes, as in link prediction, there is no prediction.
    """

    node: Name
    predicted: Name | None = None
    probability: float | None = None
    known: Name | None = None


@dataclass(frozen=True)
class PositiveEvidence:
    """How alike two nodes are taken to be: sigmoid(base + the sum of the weights).

    `pattern` has the level of every relation, in the order of the fit. `link_score` is what the
    head of a link predictor says of the pair.
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
        """The relations that speak for it, the loudest first."""
        return tuple(signal for signal in self.signals if signal.level and signal.weight > 0)


@dataclass(frozen=True)
class NodeExplanation:
    """What is thought of a node, whom it was pulled towards and why, and who is linked to it."""

    node: NodePrediction
    chances: dict[str, float]
    positives: tuple[PositiveEvidence, ...]
    neighbours: tuple[NodePrediction, ...]


def explain_node(model: XTCL, u: int) -> NodeExplanation:
    """The account of node number `u`."""
    beliefs = NodeBeliefs(model)
    graph = model.training_data_.graph
    (row,) = model._nodes([u])
    positives = [int(v) for v in model.positives_[row] if v >= 0]
    told = beliefs.told
    classes = [] if told is None else class_names(graph).tolist()
    return NodeExplanation(
        beliefs.of(row),
        {} if told is None else dict(zip(map(str, classes), _round(told[row]), strict=True)),
        tuple(explain_pair(model, row, v, beliefs) for v in positives),
        tuple(beliefs.of(v) for v in graph.adjacency[[row]].indices.tolist()),
    )


def explain_pair(
    model: XTCL, u: int, v: int, beliefs: NodeBeliefs | None = None
) -> PositiveEvidence:
    """The account of the pair (u, v), as u sees it."""
    found: PairExplanation = model.explain(u, v)
    beliefs = beliefs or NodeBeliefs(model)
    answer = model.fitted_task_.answer
    levels = {signal.relation: signal.level for signal in found.signals}
    score = None
    if isinstance(answer, LinkScores):
        score = round(float(expit(answer.score(np.array([[u], [v]]))[0])), DIGITS)
    return PositiveEvidence(
        beliefs.of(u),
        beliefs.of(v),
        round(found.probability, DIGITS),
        found.base,
        "".join(str(levels[relation.name]) for relation in model.sampler_.relations_),
        found.signals,
        bool((model.positives_[u] == v).any()),
        bool(model.training_data_.graph.adjacency[u, v]),
        score,
    )


class NodeBeliefs:
    """What a model thinks of its nodes."""

    def __init__(self, model: XTCL) -> None:
        answer = model._fitted().answer
        self.graph = model.training_data_.graph
        self.told = answer.probabilities if isinstance(answer, NodePredictions) else None
        self.names = names_of(self.graph).tolist()
        self.classes = class_names(self.graph).tolist()

    def of(self, node: int) -> NodePrediction:
        """What it thinks of one."""
        labels = self.graph.labels
        known = None if labels is None or labels[node] < 0 else self.classes[labels[node]]
        if self.told is None:
            return NodePrediction(self.names[node], known=known)
        code = int(self.told[node].argmax())
        chance = round(float(self.told[node, code]), DIGITS)
        return NodePrediction(self.names[node], self.classes[code], chance, known)


def _round(values: np.ndarray[Any, Any]) -> list[float]:
    return [round(float(value), DIGITS) for value in values]
