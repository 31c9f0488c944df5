"""Embeddings without labels under the package's own heads."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from small_runs import small_graph, small_split

from xtcl.graph.graph import Graph
from xtcl.lab.methods.self_supervised import SelfSupervised
from xtcl.progress import Progress
from xtcl.tasks.link_prediction import VALIDATION_LINK_SHARE, choose_scorer, fit_chosen, hide_links
from xtcl.tasks.logistic import fit_logistic
from xtcl.tasks.results import LinkScores, NodePredictions
from xtcl.tasks.self_training import self_train
from xtcl.tasks.training_data import TrainingData, training_data

CPU = torch.device("cpu")
GRAPH = small_graph()


class Neighbours(SelfSupervised):
    """The sum of the neighbours' attributes; remembers the graphs it was shown."""

    name: ClassVar[str] = "neighbours"
    title: ClassVar[str] = "Neighbours"

    def __init__(self) -> None:
        self.shown: list[Graph] = []

    def embed(
        self, graph: Graph, *, seed: int, device: torch.device, progress: Progress
    ) -> np.ndarray:
        self.shown.append(graph)
        return np.asarray(graph.adjacency @ graph.attributes)


def side_of(task: str) -> TrainingData:
    return training_data(GRAPH, small_split(GRAPH, task))


def test_nodes_end_in_logistic_regression_and_labels_stay_unseen() -> None:
    side, method = side_of("nodes"), Neighbours()
    answer = method.fit(side, "nodes", seed=3, device=CPU, progress=Progress())
    (shown,) = method.shown
    assert shown.labels is None
    assert shown.num_classes == 0
    rows = np.asarray(GRAPH.adjacency @ GRAPH.attributes)
    known, labels = side.labelled, side.labels[side.labelled]
    head = self_train(fit_logistic(rows[known], labels, seed=3), rows, known, labels, seed=3)
    assert isinstance(answer, NodePredictions)
    np.testing.assert_array_equal(answer.probabilities, head.predict_proba(rows, 3))


def test_links_choose_their_scorer_by_links_the_embedding_has_not_seen() -> None:
    side, method = side_of("links"), Neighbours()
    answer = method.fit(side, "links", seed=3, device=CPU, progress=Progress())
    fewer, all_of_them = method.shown
    links = hide_links(side, VALIDATION_LINK_SHARE, 3)
    np.testing.assert_array_equal(fewer.edges, links.graph.edges)
    np.testing.assert_array_equal(all_of_them.edges, side.graph.edges)
    assert fewer.num_edges < all_of_them.num_edges
    judged = np.asarray(fewer.adjacency @ GRAPH.attributes)
    rows = np.asarray(side.graph.adjacency @ GRAPH.attributes)
    scorer = fit_chosen(choose_scorer(links, judged, 3), side, rows, 3)
    assert isinstance(answer, LinkScores)
    np.testing.assert_array_equal(answer.score(side.negatives), scorer.score(rows, side.negatives))
