"""XTCL inside other libraries: a transform of PyG, a step of scikit-learn."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone
from torch import Tensor
from torch_geometric.transforms import BaseTransform

from xtcl.errors import DataError, UsageError, check_is_fitted
from xtcl.estimator import XTCL
from xtcl.graph.convert import as_graph
from xtcl.graph.graph import Graph
from xtcl.graph.splits import NodeSplit

if TYPE_CHECKING:
    from torch_geometric.data import Data

__path__: list[str] = []  # lets `xtcl.renamed` find xtcl.integrations.add_embedding, its old place


class AddXTCLEmbedding(BaseTransform):  # type: ignore[misc]
    """Fits XTCL on a PyG `Data` and adds the embedding of its nodes.

    For nodes, labels count where `train_mask` is set, and nowhere else; without a mask, all of
    them do. For links, `edge_index` must hold training links only, as after `RandomLinkSplit`.

    Args:
        attr_name: where the embedding is put; None appends it to `x`, as PyG's own transforms do.
        parameters: those of `XTCL`, such as `task="links"` or `random_state=1`.

    """

    def __init__(self, attr_name: str | None = "xtcl_embedding", **parameters: Any) -> None:
        self.attr_name = attr_name
        self.parameters = parameters

    def forward(self, data: Data) -> Data:
        """`data` with the embedding, float32 [V, width]."""
        model = XTCL(**self.parameters)
        mask = data.get("train_mask")
        bare = copy(data)
        if mask is not None:
            del bare.train_mask  # not read by a Graph, which would warn about it
        graph = Graph.from_pyg(bare)
        split = None if mask is None or model.task != "nodes" else _training_nodes(mask, graph)
        rows = torch.from_numpy(model.fit(graph, split).embedding_).to(data.edge_index.device)
        if self.attr_name is not None:
            data[self.attr_name] = rows
        else:
            data.x = rows if data.x is None else torch.cat([data.x, rows.to(data.x.dtype)], dim=1)
        return data


def _training_nodes(mask: Tensor, graph: Graph) -> NodeSplit:
    if mask.shape != (graph.num_nodes,):
        raise DataError(
            f"train_mask has the shape {list(mask.shape)}, for {graph.num_nodes} nodes: give one "
            "split, such as train_mask[:, 0]."
        )
    known = mask.cpu().numpy().astype(bool)
    if graph.labels is not None:
        known &= graph.labels >= 0
    return NodeSplit(np.flatnonzero(known), np.arange(0), seed=0)


class NodeEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns node indices into embeddings that were trained on the labels given to `fit`.

    A sample is a node: X are node indices, [n] or [n, 1], and y their labels. No other label of
    the graph is read, so that cross-validation over nodes does not leak.

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
        nodes = _node_indices(X, graph.num_nodes)
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
        check_is_fitted(self, "model_", "fit(nodes, labels)")
        rows: np.ndarray = self.model_.embedding_
        return np.asarray(rows[_node_indices(X, len(rows))])


def _node_indices(nodes: ArrayLike, count: int) -> np.ndarray:
    indices = np.asarray(nodes)
    if indices.ndim == 2 and indices.shape[1] == 1:
        indices = indices[:, 0]
    valid = indices.ndim == 1 and np.issubdtype(indices.dtype, np.integer)
    if not valid or (indices < 0).any() or (indices >= count).any():
        raise UsageError(f"X must be node numbers from 0 to {count - 1}, [n] or [n, 1].")
    return indices
