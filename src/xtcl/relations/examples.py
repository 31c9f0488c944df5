"""A graph of four nodes, and rows of a relation as lists, for the examples in docstrings."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from xtcl.graph.graph import Graph
from xtcl.relations.relation import Relation
from xtcl.relations.view import TrainingView


def path_of_four() -> TrainingView:
    """The path 0 - 1 - 2 - 3 with two attributes; the labels of all but node 3 are known."""
    graph = Graph.from_arrays(
        attributes=[[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 2.0]],
        edges=[[0, 1, 2], [1, 2, 3]],
        labels=[0, 1, 0, 1],
        name="path of four",
    )
    return TrainingView.of(graph, labelled=[0, 1, 2])


def rows(relation: Relation, view: TrainingView, nodes: Sequence[int]) -> list[list[float]]:
    """Similarities of `nodes` to all nodes, rounded to three digits."""
    block = relation.on(view)(torch.tensor(nodes))
    return [[round(value, 3) for value in row] for row in block.tolist()]
