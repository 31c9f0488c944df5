"""NodeEmbedder: a step of a scikit-learn pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone

from xtcl.errors import NotFittedError, UsageError
from xtcl.estimator import XTCL
from xtcl.graph.as_graph import as_graph


class NodeEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns node numbers into embeddings that were trained on the labels given to `fit`.

    A sample is a node: X are node numbers, [n] or [n, 1], and y their labels. No other label of
    the graph is looked at, so that cross-validation over nodes does not leak.

    Args:
        graph: a Graph, a PyG `Data` or a NetworkX graph, with all nodes.
        model: the XTCL to fit a copy of; None is `XTCL()`. One for links needs no y.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> from xtcl import NodeEmbedder, block_model
        >>> graph = block_model(60)
        >>> pipeline = make_pipeline(NodeEmbedder(graph), LogisticRegression())
        >>> pipeline.fit([0, 1, 2, 3], graph.labels[:4]).predict([4, 5])  # doctest: +SKIP

    """

    def __init__(self, graph: Any, model: XTCL | None = None) -> None:
        self.graph = graph
        self.model = model

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> NodeEmbedder:
        """Fit the model on the graph with the labels `y` of the nodes `X`, and with no others."""
        graph = as_graph(self.graph)
        nodes = _numbers(X, graph.num_nodes)
        model: XTCL = clone(self.model or XTCL())
        graph = replace(graph, labels=None, classes=())
        if y is not None and model.task != "links":
            classes, codes = np.unique(np.asarray(y), return_inverse=True)
            labels = np.full(graph.num_nodes, -1, dtype=np.int64)
            labels[nodes] = codes
            graph = replace(graph, labels=labels, classes=tuple(classes.tolist()))
        self.model_ = model.fit(graph)
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """The embeddings [n, width] of the nodes `X`."""
        if not hasattr(self, "model_"):
            raise NotFittedError("This NodeEmbedder is not fitted yet; call fit(nodes, labels).")
        rows: np.ndarray = self.model_.embedding_
        return np.asarray(rows[_numbers(X, len(rows))])


def _numbers(nodes: ArrayLike, count: int) -> np.ndarray:
    numbers = np.asarray(nodes)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    whole = numbers.ndim == 1 and np.issubdtype(numbers.dtype, np.integer)
    if not whole or (numbers < 0).any() or (numbers >= count).any():
        raise UsageError(f"X must be node numbers from 0 to {count - 1}, [n] or [n, 1].")
    return numbers
