"""What a fitted model knows of its nodes, laid out for the parts of the page."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from xtcl.answers.likely_links import known_links
from xtcl.answers.node_names import names_of
from xtcl.answers.predictions import class_names
from xtcl.graph.graph import Graph
from xtcl.report.page.shown_text import shown
from xtcl.tasks.answers import Answer, NodeAnswer

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
        side = model.training_side_.graph
        graph = replace(side.with_edges(known_links(model)), repairs=side.repairs)
        truth = np.full(side.num_nodes, -1) if side.labels is None else side.labels.copy()
        trained = np.flatnonzero(truth >= 0)
        held, split = model._test_labels, model._split
        if held is not None and split is not None:
            truth[split.test] = held
        answer = answer_of(model)
        return cls(
            graph=graph,
            classes=tuple(shown(name) for name in class_names(side)),
            truth=truth,
            trained=trained,
            tested=np.setdiff1d(np.flatnonzero(truth >= 0), trained),
            chances=answer.probabilities if isinstance(answer, NodeAnswer) else None,
            embedding=model.embedding_,
            positives=model.positives_,
        )

    @cached_property
    def names(self) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
        """The id of every node."""
        return names_of(self.graph)

    def name(self, node: int) -> str:
        """The id of one, as text to show."""
        return shown(self.names[node])

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


def answer_of(model: XTCL) -> Answer | None:
    """What the model answers; None for a task of the user's own, which has no head."""
    return None if model.head_ is None else model._result.answer
