"""Dense matrices of what the code computes in rows, for comparison with dense oracles."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from xtcl.relations.relation import Relation
from xtcl.relations.view import TrainingView


def all_rows(relation: Relation, view: TrainingView) -> np.ndarray:
    """All similarities of a relation, float32 [V, V]."""
    rows = relation.on(view)(torch.arange(view.num_nodes))
    assert rows.dtype == torch.float32
    assert rows.shape == (view.num_nodes, view.num_nodes)
    return rows.numpy()


def off_diagonal(matrix: np.ndarray) -> np.ndarray:
    """The matrix with 0 for each node and itself, which no user of a relation reads."""
    return np.where(np.eye(len(matrix), dtype=bool), 0.0, matrix)


def dense_adjacency(view: TrainingView) -> np.ndarray:
    """A, float64 [V, V]."""
    return np.asarray(view.adjacency.toarray(), dtype=np.float64)


def dense_attributes(view: TrainingView) -> np.ndarray:
    """X, float64 [V, D]."""
    return np.asarray(view.attributes, dtype=np.float64)


def neighbours(view: TrainingView) -> list[set[int]]:
    """The set of neighbours of every node."""
    return [{int(v) for v in np.flatnonzero(row)} for row in dense_adjacency(view)]


def relabelled(view: TrainingView, number: np.ndarray) -> TrainingView:
    """The same data with the node that was `number[i]` now called i."""
    return dataclasses.replace(
        view,
        attributes=view.attributes[number],
        adjacency=view.adjacency[number][:, number],
        labels=view.labels[number],
        label_free_cache={},
        attribute_cache={},
    )


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """cos(a, b) cut to 0 from below; 0 where a or b is zero."""
    length = float(np.sqrt(np.sum(a * a)) * np.sqrt(np.sum(b * b)))
    return max(float(np.sum(a * b)) / length, 0.0) if length > 0 else 0.0


def cosines(factors: np.ndarray) -> np.ndarray:
    """Cosine of every two rows, pair by pair."""
    return np.array([[cosine(a, b) for b in factors] for a in factors])
