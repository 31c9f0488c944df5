"""Training data: what a method may see of a graph and a split, and nothing of the test side."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xtcl.errors import DataError, UsageError
from xtcl.graph import Graph, LinkSplit, NodeSplit
from xtcl.graph.pairs import pair_keys

Split = NodeSplit | LinkSplit


@dataclass(frozen=True)
class TrainingData:
    """A graph that holds training data only; for links, the training non-links too.

    Node classification: all links, and the labels of the training nodes. Link prediction: the
    training links, and no labels unless `use_labels` is set.
    """

    graph: Graph
    non_links: np.ndarray | None = None

    @property
    def labelled(self) -> np.ndarray:
        """The nodes whose labels are there."""
        labels = self.graph.labels
        return np.arange(0) if labels is None else np.flatnonzero(labels >= 0)

    @property
    def labels(self) -> np.ndarray:
        """Label codes, -1 where not there; refuses a graph without any."""
        if self.graph.labels is None:
            raise DataError(
                f"Graph '{self.graph.name}' has no labels; node classification needs some. Make a "
                "graph that has them, Graph.from_scipy(A, labels=...), "
                "Graph.from_networkx(G, label=...), Graph.from_arrays(...) or y of a Data, or use "
                "task='links'."
            )
        return self.graph.labels

    @property
    def known_labels(self) -> np.ndarray:
        """Label codes of the labelled nodes; refuses a graph without any."""
        codes: np.ndarray = self.labels[self.labelled]
        if not len(codes):
            raise DataError(f"Graph '{self.graph.name}' has no known label to train on; give some.")
        return codes

    @property
    def negatives(self) -> np.ndarray:
        """Training non-links [2, n]; refuses the side of a node split."""
        if self.non_links is None:
            raise UsageError("Link prediction needs a link split: use link_split(graph).")
        return self.non_links


def training_data(graph: Graph, split: Split, *, use_labels: bool = False) -> TrainingData:
    """Cut the test side off. `use_labels` keeps the labels for link prediction."""
    if isinstance(split, LinkSplit):
        # What was repaired in the data was repaired in what is seen of them, too.
        seen = replace(split.training_graph(graph), repairs=graph.repairs)
        seen = seen if use_labels else replace(seen, labels=None, classes=())
        return TrainingData(seen, split.train_negatives)
    known = TrainingData(graph).labels
    outside = split.train[(split.train < 0) | (split.train >= graph.num_nodes)]
    if len(outside):
        raise DataError(
            f"The split names training node {outside[0]}, but graph '{graph.name}' has "
            f"{graph.num_nodes} nodes: use the graph it was made from."
        )
    labels = np.full(graph.num_nodes, -1, dtype=np.int64)
    labels[split.train] = known[split.train]
    return TrainingData(graph.with_labels(labels))


def check_disjoint(side: TrainingData, split: Split) -> None:
    """Refuse a split whose test side holds what `side` trains on."""
    if isinstance(split, LinkSplit):
        tested, trained = (
            pair_keys(pairs, split.num_nodes) for pairs in (split.test, side.graph.edges)
        )
        both = len(np.intersect1d(tested, trained))
    else:
        both = len(np.intersect1d(split.test, side.labelled))
    if both:
        raise UsageError(
            f"{both} test {split.kind} of this split are training {split.kind} of the model: score "
            "with the split it was fitted with, and make splits with node_split or link_split."
        )
