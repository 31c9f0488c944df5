"""What `XGSampler` is given: a graph and maybe labels as a view of the training data, and pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from xtcl.errors import DataError, UsageError
from xtcl.graph.convert import as_graph, is_of
from xtcl.graph.graph import Graph
from xtcl.graph.labels import encode_labels
from xtcl.graph.splits import LinkSplit, NodeSplit, masks_of
from xtcl.graph.validation import to_host
from xtcl.relations.arrays import node_array
from xtcl.relations.view import TrainingView


def view_with_labels(graph: Any, labels: Any = None) -> TrainingView:
    """The view of `graph` with `labels` [V], or with its own.

    A `TrainingView` shows what may be read already. Of a PyG `Data` with a `train_mask`, only the
    labels in the mask are its own. A `NodeSplit` in place of labels stands for the graph's labels
    of its training side. So does a mask of booleans; of a graph without labels they are classes.
    """
    if isinstance(graph, TrainingView):
        chosen = _chosen(labels, graph.num_nodes, bool((graph.labels >= 0).any()))
        if chosen is not None:
            known = np.full(graph.num_nodes, -1, dtype=np.int64)
            known[chosen] = graph.labels[chosen]
            return replace(graph, labels=known)
        if labels is None:
            return graph
        codes, classes = encode_labels(labels, graph.num_nodes)
        return replace(graph, labels=np.asarray(codes), num_classes=len(classes))
    given, graph = graph, as_graph(graph, warn_masks=False)
    chosen = _chosen(labels, graph.num_nodes, graph.has_labels)
    if chosen is not None:
        return TrainingView.of(graph, chosen)
    if labels is not None:
        graph = _relabelled(graph, labels)
    if graph.labels is None:
        return TrainingView.of(graph)
    known = graph.labels >= 0
    if labels is None and is_of(given, "torch_geometric"):
        split = masks_of(given, graph)
        known = known if split is None else split.train
    return TrainingView.of(graph, known)


def _chosen(labels: Any, num_nodes: int, has_labels: bool) -> np.ndarray | None:
    """The nodes that a split or a mask chooses; None where `labels` are labels."""
    if labels is None:
        return None
    if isinstance(labels, NodeSplit | LinkSplit):
        if isinstance(labels, LinkSplit) or not has_labels:
            raise DataError(
                "The sampler learns from labels, and a split has none: give fit(graph, split) a "
                "NodeSplit and a graph with labels, or fit(graph, labels) a class for each node."
            )
        return node_array(labels.train, num_nodes, "The training nodes of the split")
    given = to_host(labels, "Labels")
    if not has_labels or given.dtype != bool or given.ndim != 1:
        return None
    return node_array(given, num_nodes, "labels")


def check_has_labels(view: TrainingView) -> TrainingView:
    """The view itself, or an error where no label is known."""
    if not (view.labels >= 0).any():
        raise DataError(
            "The sampler learns from labels, and the graph has none: give fit(graph, labels) a "
            "class for each node (None where it is unknown), or fit(graph, pairs=..., alike=...)."
        )
    return view


def _relabelled(graph: Graph, labels: Any) -> Graph:
    """The graph with other labels: codes into its own classes, where these have all of them."""
    codes, classes = encode_labels(labels, graph.num_nodes)
    if codes is not None and set(classes) <= set(graph.classes):
        place = np.array([*(graph.classes.index(value) for value in classes), -1], dtype=np.int64)
        codes, classes = place[codes], graph.classes
    return replace(graph, labels=codes, classes=classes)


def pair_matrix(name: str, given: Any, num_nodes: int) -> sp.csr_array:
    """A sparse matrix of pairs as CSR; refuses what is none."""
    is_sparse = bool(sp.issparse(given))  # mypy would take it for a type without a shape
    if not is_sparse or given.shape != (num_nodes, num_nodes):
        raise UsageError(
            f"{name} must be a sparse matrix of shape [{num_nodes}, {num_nodes}], such as "
            f"scipy.sparse.csr_array(matrix), not a {type(given).__name__} of shape "
            f"{list(np.shape(given))}."
        )
    return given if isinstance(given, sp.csr_array) else sp.csr_array(given)
