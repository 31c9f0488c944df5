"""Small fits by hidden labels, and blends of made-up embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.special import softmax
from small_runs import narrow, small_graph

from xtcl.config import HIDDEN_LABELS, EncoderConfig, EnsembleConfig, FitConfig
from xtcl.graph.graph import Graph
from xtcl.tasks.blend import (
    Blend,
    BlendedHead,
    BlendMember,
    HeadRows,
    LinearMember,
    TreesMember,
    column_blocks,
)
from xtcl.tasks.logistic import Floats, LogisticHead
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.training_data import TrainingData
from xtcl.tasks.trees import tree_columns

WIDTHS = (5, 4, 3, 2, 6)
ENCODERS = (
    EncoderConfig(positives="learned"),
    EncoderConfig(positives="uniform"),
    EncoderConfig(positives="learned", messages="likely"),
    EncoderConfig(),
    EncoderConfig(positives="uniform"),
)
"""Encoders of one block are not always next to each other, and one is of no named strategy."""


def hidden_recipe(epochs: int = 3) -> FitConfig:
    """The recipe in small."""
    return narrow(NodeClassification().named_recipe(HIDDEN_LABELS, "gcn"), epochs)


def shrink_hidden_recipe(monkeypatch: pytest.MonkeyPatch, epochs: int = 3) -> None:
    """Make the recipes for nodes small, by name and the default, with all heads."""
    recipe, named_recipe = NodeClassification.recipe, NodeClassification.named_recipe

    def small(task: NodeClassification, encoder: str) -> FitConfig:
        return narrow(recipe(task, encoder), epochs)

    def small_named(task: NodeClassification, name: str, encoder: str) -> FitConfig:
        return narrow(named_recipe(task, name, encoder), epochs)

    monkeypatch.setattr(NodeClassification, "recipe", small)
    monkeypatch.setattr(NodeClassification, "named_recipe", small_named)


def equal_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every candidate the same weight, so that heads of each kind answer."""

    def equal(log_likelihood: Floats, prior: Floats, label_weights: Floats) -> Floats:
        return np.full(len(log_likelihood), 1 / len(log_likelihood))

    monkeypatch.setattr("xtcl.tasks.hidden_labels.blend_weights", equal)


def training_graph(num_nodes: int = 60, every: int = 2, seed: int = 0) -> Graph:
    """A small graph that knows the label of one in `every` nodes."""
    graph = small_graph(num_nodes, seed)
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[np.arange(num_nodes) % every != 0] = -1
    return graph.with_labels(labels)


def made_up(
    graph: Graph,
    *,
    encoders: Sequence[EncoderConfig] = ENCODERS,
    widths: Sequence[int] = WIDTHS,
    seed: int = 0,
) -> FittedEmbedding:
    """A fit whose embedding was drawn: around a point for each class, and further from it."""
    rng = np.random.default_rng(seed)
    truth = small_graph(graph.num_nodes).labels
    assert truth is not None
    width = sum(widths) + 3 * graph.num_attributes
    centres = rng.normal(size=(graph.num_classes, width))
    rows = centres[truth] + 1.5 * rng.normal(size=(graph.num_nodes, width))
    return FittedEmbedding(
        cast("Any", None),
        np.zeros((graph.num_nodes, 1), dtype=np.int64),
        EnsembleConfig(tuple(encoders), attributes=1.0),
        cast("Any", None),
        torch.from_numpy(rows.astype(np.float32)),
        (),
        widths=tuple(widths),
    )


def rows_of(graph: Graph, fitted: FittedEmbedding) -> HeadRows:
    """What heads read of the nodes."""
    labels = TrainingData(graph).labels
    return HeadRows(fitted.embedding, graph.attributes, graph.adjacency, labels)


def member(kind: str, blocks: Sequence[str], weight: float, **facts: Any) -> BlendMember:
    """A candidate; what is not given is made up."""
    known: dict[str, Any] = {"name": f"{kind} on {', '.join(blocks)}", "C": 3.0}
    known |= {"inverse_temperature": 0.8, "log_loss": 0.5, "accuracy": 0.75} | facts
    return BlendMember(kind=kind, blocks=tuple(blocks), weight=weight, **known)


def choice_of(graph: Graph, fitted: FittedEmbedding) -> Blend:
    """A choice with two logistic heads, trees, and a candidate that was not taken."""
    names = list(column_blocks(fitted.ensemble, fitted.widths, graph.num_attributes))
    members = (
        member(LinearMember.kind, names, 0.2, C=2.0, log_loss=0.7),
        member(LinearMember.kind, names[:1], 0.0, log_loss=0.9, accuracy=0.4),
        member(TreesMember.kind, names[:3], 0.5, inverse_temperature=0.6, log_loss=0.4),
        member(LinearMember.kind, names[-1:], 0.3, inverse_temperature=1.5, log_loss=0.6),
    )
    return Blend(members, 30, log_loss=0.45, accuracy=0.8)


def by_hand(each: LinearMember | TreesMember, rows: HeadRows, num_classes: int) -> np.ndarray:
    """The class probabilities [V, C] of one head, straight from the formulas."""
    z = rows.embedding.numpy().astype(np.float64)
    read = np.concatenate([z[:, start:end] for start, end in each.ranges], axis=1)
    found = np.zeros((len(z), num_classes))
    if isinstance(each, LinearMember):
        found[:, each.head.classes_] = softmax(linear_scores(each.head, read), axis=1)
        return found
    own = (read - each.mean) @ each.directions.astype(np.float64)
    columns = tree_columns(rows.attributes, rows.adjacency, rows.labels, num_classes, extra=own)
    scores = each.trees.decision_function(columns)
    found[:, each.trees.classes_] = softmax(scores, axis=1)
    return found


def linear_scores(head: LogisticHead, read: np.ndarray) -> np.ndarray:
    """W x + b of every row, centred and at unit length, one by one."""
    centred = [row - head.mean_ for row in read]
    unit = [row / np.sqrt(np.sum(row**2)) for row in centred]
    return np.array([head.coef_ @ row + head.intercept_ for row in unit])


def mixed_by_hand(head: BlendedHead, rows: HeadRows, num_classes: int) -> np.ndarray:
    """The weighted mean of the probabilities of the heads, node by node and class by class."""
    each = [by_hand(one, rows, num_classes) for one in head.members]
    found = np.zeros((len(rows.embedding), num_classes))
    for u in range(len(found)):
        for c in range(num_classes):
            found[u, c] = sum(
                w * own[u, c] for w, own in zip(head.weights.tolist(), each, strict=True)
            )
    return found
