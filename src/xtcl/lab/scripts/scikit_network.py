"""Accuracy of scikit-network on the splits of the comparison, for docs/compare.md.

    PYTHONPATH=src python -m xtcl.lab.scripts.scikit_network [--splits 5]
        [--out results/scikit-network]

Cora, a tenth of the labels for training, splits from seed 0: those of `xtcl evaluate cora`. Three
of its ways, with the settings it has by default:

- PageRank, which spreads labels over links and reads no attributes;
- a spectral embedding of the links in 64 dimensions, under the logistic regression that xtcl uses;
- its own graph convolutional network, on attributes of unit length, with 16 hidden units and 100
  epochs. On two other splits (seeds 1000 and 1001) attributes as they are gave 7 points less, and
  300 epochs no more.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sknetwork.classification import PageRankClassifier
from sknetwork.embedding import Spectral
from sknetwork.gnn import GNNClassifier

from xtcl.graph.graph import Graph
from xtcl.lab.scripts.study import Predict, by_logistic, write_ways
from xtcl.tasks.training_data import TrainingData


def _links(graph: Graph) -> sp.csr_matrix:
    """The links as scikit-network takes them."""
    return sp.csr_matrix(graph.adjacency).astype(bool)


def by_pagerank(graph: Graph, side: TrainingData, seed: int) -> np.ndarray:
    """Labels spread by personalised PageRank from the training nodes of each class."""
    return np.asarray(PageRankClassifier().fit_predict(_links(graph), labels=side.labels))


def by_spectral(graph: Graph, side: TrainingData, seed: int) -> np.ndarray:
    """Logistic regression on a spectral embedding."""
    rows = Spectral(64).fit_transform(_links(graph)).astype(np.float32)
    return by_logistic(rows, side, seed)


def by_network(graph: Graph, side: TrainingData, seed: int) -> np.ndarray:
    """scikit-network's own graph convolutional network."""
    x = sp.csr_array(graph.attributes).toarray()
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    network = GNNClassifier(dims=[16, graph.num_classes], layer_types="Conv", verbose=False)
    return np.asarray(
        network.fit_predict(_links(graph), x, labels=side.labels, n_epochs=100, random_state=seed)
    )


CLASSIFIERS: dict[str, Predict] = {
    "PageRankClassifier": by_pagerank,
    "Spectral(64) and logistic regression": by_spectral,
    "GNNClassifier": by_network,
}


if __name__ == "__main__":
    write_ways(__doc__, "scikit-network", "scikit-network", CLASSIFIERS)
