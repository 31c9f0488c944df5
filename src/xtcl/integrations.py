"""XTCL inside other libraries: a transform of PyG, a step of scikit-learn."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from xtcl.errors import DataError, UsageError, check_is_fitted, first_few
from xtcl.estimator import XTCL
from xtcl.graph.convert import as_graph
from xtcl.graph.labels import encode_labels
from xtcl.graph.validation import to_array
from xtcl.inference.tables import embedding_columns

__path__: list[str] = []  # lets `xtcl.renamed` find xtcl.integrations.add_embedding, its old place


class AddXTCLEmbedding(BaseTransform):  # type: ignore[misc]
    """Fits XTCL on a PyG `Data` and adds the embedding of its nodes.

    For nodes, labels count where `train_mask` is set, and nowhere else; without a mask, all of
    them do. For links, `edge_index` must hold training links only, as after `RandomLinkSplit`.
    `XTCL.fit` reads a `Data` in the same way.

    Args:
        attr_name: where the embedding is put; None appends it to `x`, as PyG's own transforms do.
        full: whether to add the full embedding in place of the compact one.
        parameters: those of `XTCL`, such as `task="links"` or `random_state=1`.

    """

    def __init__(
        self, attr_name: str | None = "xtcl_embedding", *, full: bool = False, **parameters: Any
    ) -> None:
        if not (attr_name is None or (isinstance(attr_name, str) and attr_name)):
            remedy = (
                "give the parameters of a model by name, AddXTCLEmbedding(**model.get_params())"
                if isinstance(attr_name, XTCL)
                else "give a name, such as 'xtcl_embedding', or None to append to x"
            )
            raise UsageError(f"attr_name={attr_name!r} is no name of an attribute: {remedy}.")
        self.attr_name = attr_name
        self.full = full
        self.parameters = parameters

    def forward(self, data: Data) -> Data:
        """`data` with the embedding, float32 [V, 256 or fewer], or [V, width] with `full`."""
        if not isinstance(data, Data):
            raise UsageError(
                f"AddXTCLEmbedding takes a PyG Data, not a {type(data).__name__}: give it "
                "graph.to_pyg(), or take XTCL().fit(graph).compact_embedding_."
            )
        model = XTCL(**self.parameters).fit(data)
        embedding = model.embedding_ if self.full else model.compact_embedding_
        rows = torch.from_numpy(embedding).to(data.edge_index.device)
        if self.attr_name is not None:
            data[self.attr_name] = rows
        else:
            data.x = rows if data.x is None else torch.cat([data.x, rows.to(data.x.dtype)], dim=1)
        return data


class NodeEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns node indices into embeddings that were trained on the labels given to `fit`.

    A sample is a node: X are node indices, [n] or [n, 1], and y their labels. No other label of
    the graph is read, so that cross-validation over nodes does not leak. None, NaN, "" or -1 is an
    unknown label, as in `Graph.from_arrays`.

    Args:
        graph: a Graph or what `as_graph` makes one of, with all nodes. Clones of the embedder, as
            scikit-learn makes them for every fold, share it.
        model: the XTCL to fit a copy of; None is `XTCL()`. One for links needs no y.
        full: whether to give the full embedding in place of the compact one.

    Attributes:
        model_: the fitted XTCL; `model_.random_state_` is its seed.
        n_features_in_: 1, the column of node numbers.

    Examples:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> from xtcl import NodeEmbedder, block_model
        >>> graph = block_model(60)
        >>> pipeline = make_pipeline(NodeEmbedder(graph), LogisticRegression())
        >>> pipeline.fit([0, 1, 2, 3], graph.labels[:4]).predict([4, 5])  # doctest: +SKIP

    """

    def __init__(self, graph: Any, model: XTCL | None = None, full: bool = False) -> None:
        self.graph = graph
        self.model = model
        self.full = full

    def __sklearn_tags__(self) -> Tags:
        """Labels are needed unless the model is for links."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = getattr(self.model, "task", None) != "links"
        return tags

    def __sklearn_clone__(self) -> NodeEmbedder:
        """A clone that shares the graph: a fit reads it, and a copy for each fold takes memory."""
        bare = copy.copy(self)
        bare.graph = None
        again: NodeEmbedder = super(NodeEmbedder, bare).__sklearn_clone__()
        again.graph = self.graph
        return again

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> NodeEmbedder:
        """Fit the model on the graph with the labels `y` of the nodes `X`, and with no others."""
        if not isinstance(self.model, XTCL | None):
            raise UsageError(
                f"model={self.model!r} must be an XTCL, such as XTCL('nodes'), or None."
            )
        graph = as_graph(self.graph, warn_masks=False)
        nodes = _node_indices(X, graph.num_nodes)
        validate_data(self, X, skip_check_array=True, ensure_2d=False)
        self.n_features_in_ = 1
        model: XTCL = clone(self.model or XTCL())
        graph = replace(graph, labels=None, classes=())
        if y is not None and model.task != "links":
            found, classes = encode_labels(_labels(y, len(nodes)), len(nodes))
            codes = np.asarray(found)
            if not classes:
                raise DataError("y has no known label: give a class for some of the nodes in X.")
            labels = np.full(graph.num_nodes, -1, dtype=np.int64)
            labels[nodes] = codes
            conflicts = np.unique(nodes[labels[nodes] != codes])
            if conflicts.size:
                raise DataError(
                    f"X lists nodes twice, with two labels: {first_few(conflicts)}. Give each node "
                    "once, with one label."
                )
            graph = replace(graph, labels=labels, classes=classes)
        self.model_ = model.fit(graph)
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """The embeddings of the nodes `X`, [n, 256 or fewer], or [n, width] with `full`."""
        rows = self._rows()
        nodes = _node_indices(X, len(rows))
        validate_data(self, X, reset=False, skip_check_array=True, ensure_2d=False)
        return np.asarray(rows[nodes])

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """The names of the columns, as in `XTCL.embedding_frame`. `input_features` is not used."""
        names = embedding_columns(self._rows().shape[1], full=self.full)
        return np.array(names, dtype=object)

    def _rows(self) -> np.ndarray:
        check_is_fitted(self, "model_", "fit(nodes, labels)")
        model: XTCL = self.model_
        return model.embedding_ if self.full else model.compact_embedding_


def _node_indices(nodes: ArrayLike, count: int) -> np.ndarray:
    indices = np.asarray(nodes)
    if indices.ndim == 2 and indices.shape[1] == 1:
        indices = indices[:, 0]
    valid = indices.ndim == 1 and np.issubdtype(indices.dtype, np.integer)
    if not valid or (indices < 0).any() or (indices >= count).any():
        raise UsageError(f"X must be node numbers from 0 to {count - 1}, [n] or [n, 1].")
    return indices


def _labels(y: ArrayLike, count: int) -> np.ndarray:
    labels = to_array(y, "y")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (count,):
        raise DataError(f"y has the shape {list(labels.shape)}, for {count} nodes in X.")
    return labels
