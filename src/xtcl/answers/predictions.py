"""Class and chances of every node, by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xtcl.answers.answer_table import AnswerTable, chances
from xtcl.answers.node_names import names_of
from xtcl.errors import UsageError
from xtcl.graph.graph import Graph
from xtcl.tasks.answers import NodeAnswer

if TYPE_CHECKING:
    from xtcl.estimator import XTCL


def class_chances(model: XTCL) -> np.ndarray:
    """Chances [V, C] of a model for nodes; refuses one for links."""
    answer = model._fitted().answer
    if not isinstance(answer, NodeAnswer):
        raise UsageError(
            "This model was fitted to predict links, and has no classes: ask for links "
            "(`xtcl links RUN`), or fit one with task nodes."
        )
    return answer.probabilities


def predictions(model: XTCL) -> AnswerTable:
    """For every node its likeliest class, the chances, and the label that was trained on."""
    graph = model.training_side_.graph
    return prediction_table(graph, names_of(graph), class_chances(model), graph.labels)


def prediction_table(
    graph: Graph,
    names: np.ndarray[Any, Any],
    told: np.ndarray,
    labels: np.ndarray | None = None,
) -> AnswerTable:
    """The chances `told` [n, C] of the nodes `names` as a table; `labels` are codes, or -1."""
    known = np.full(len(names), -1) if labels is None else labels
    values = class_names(graph)
    or_none = np.array([*values, None], dtype=object)  # code -1 reads None
    return AnswerTable(
        {
            "node": names,
            "predicted": values[told.argmax(axis=1)],
            "probability": chances(told.max(axis=1)),
            "known": or_none[known],
            **{f"p_{value}": chances(told[:, code]) for code, value in enumerate(values)},
        }
    )


def class_names(graph: Graph) -> np.ndarray[Any, Any]:
    """The classes as the tables have them, by code: all of them integers, or else all text."""
    whole = all(type(value) is int for value in graph.classes)
    names = np.empty(graph.num_classes, dtype=object)
    names[:] = graph.classes if whole else [str(value) for value in graph.classes]
    return names
