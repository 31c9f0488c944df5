"""Smoothed attributes against dense power iterations, and the choice between them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xtcl.baselines import propagation
from xtcl.baselines.propagation import (
    AXES,
    VARIANTS,
    PropagationMethod,
    Smoothing,
    Variant,
    concatenate_columns,
    leading_axes,
    principal_product,
    smoothed_attributes,
)
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import link_split, node_split
from xtcl.progress import Progress
from xtcl.tasks.link_prediction import fit_chosen, hide_links
from xtcl.tasks.logistic import fit_logistic
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.self_training import self_train
from xtcl.tasks.training_data import training_data

CPU = torch.device("cpu")
GRAPH = block_model(80, num_classes=3, num_attributes=20, mean_degree=6)


def unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0))


def dense_smoothing(graph: Graph, smoothing: Smoothing) -> np.ndarray:
    """Power iteration, in double precision, with the whole normalised adjacency."""
    looped = graph.adjacency.toarray().astype(np.float64) + np.eye(graph.num_nodes)
    root = np.diag(looped.sum(axis=1) ** -0.5)
    start = unit(np.asarray(graph.attributes, dtype=np.float64))
    rows = start
    for _ in range(smoothing.hops):
        rows = (1 - smoothing.restart) * (root @ looped @ root @ rows) + smoothing.restart * start
    return unit(rows)


def dense_rows(graph: Graph, variant: Variant) -> np.ndarray:
    return np.hstack([dense_smoothing(graph, smoothing) for smoothing in variant])


@pytest.mark.parametrize("variant", VARIANTS)
def test_features_are_dense_power_iterations(variant: Variant) -> None:
    found = concatenate_columns(smoothed_attributes(GRAPH, CPU), variant).numpy()
    np.testing.assert_allclose(found, dense_rows(GRAPH, variant), atol=1e-6)


def test_nodes_take_the_variant_that_cross_validates_best() -> None:
    split = node_split(GRAPH, 0.4, seed=1)
    side = training_data(GRAPH, split)
    heads = []
    for variant in VARIANTS:
        rows = dense_rows(GRAPH, variant).astype(np.float32)
        heads.append((fit_logistic(rows[split.train], side.labels[split.train], seed=4), rows))
    scores = [head.cv_likelihood_ for head, _ in heads]
    assert len(set(scores)) > 1
    first, rows = heads[scores.index(max(scores))]
    head = self_train(first, rows, split.train, side.labels[split.train], seed=4)
    answer = PropagationMethod().fit(side, "nodes", seed=4, device=CPU, progress=Progress())
    assert isinstance(answer, NodePredictions)
    np.testing.assert_allclose(answer.probabilities, head.predict_proba(rows, 3), atol=1e-4)


def test_links_choose_by_smoothing_without_the_hidden_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side = training_data(GRAPH, link_split(GRAPH, 0.8, seed=2))
    seen: list[Graph] = []

    def spy(graph: Graph, device: torch.device) -> dict[Smoothing, torch.Tensor]:
        seen.append(graph)
        return smoothed_attributes(graph, device)

    monkeypatch.setattr(propagation, "smoothed_attributes", spy)
    answer = PropagationMethod().fit(side, "links", seed=2, device=CPU, progress=Progress())
    links = hide_links(side, 0.1, 2)
    np.testing.assert_array_equal(seen[0].edges, links.graph.edges)
    np.testing.assert_array_equal(seen[1].edges, side.graph.edges)
    assert seen[0].num_edges < side.graph.num_edges
    assert isinstance(answer, LinkScores)

    parts = smoothed_attributes(links.graph, CPU)
    rows = {variant: leading_axes(concatenate_columns(parts, variant)) for variant in VARIANTS}
    found = [principal_product(links, rows[variant], 2, CPU).auc for variant in VARIANTS]
    best = VARIANTS[found.index(max(found))]
    final = leading_axes(concatenate_columns(smoothed_attributes(side.graph, CPU), best))
    head = fit_chosen(principal_product(links, rows[best], 2, CPU).head, side, final, 2)
    np.testing.assert_array_equal(answer.score(side.negatives), head.score(final, side.negatives))


def test_leading_axes_keep_inner_products_where_the_rank_allows() -> None:
    rng = np.random.default_rng(0)
    narrow = rng.normal(size=(50, 8)).astype(np.float32)
    found = leading_axes(torch.from_numpy(narrow))
    np.testing.assert_allclose(found @ found.T, narrow @ narrow.T, atol=1e-4)
    low_rank = (rng.normal(size=(400, 20)) @ rng.normal(size=(20, 700))).astype(np.float32)
    found = leading_axes(torch.from_numpy(low_rank))
    assert found.shape == (400, AXES)
    np.testing.assert_allclose(found @ found.T, low_rank @ low_rank.T, atol=0.5)  # of 10^4
