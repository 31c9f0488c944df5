"""A part of a graph, and a graph with further nodes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from xtcl.graph.graph import Graph
from xtcl.graph.validation import Attributes


def subgraph(
    graph: Graph,
    nodes: np.ndarray,
    *,
    labels: np.ndarray | None = None,
    classes: Sequence[Hashable] | None = None,
    name: str | None = None,
) -> Graph:
    """The `nodes`, sorted ascending, with the links among them; they keep their ids.

    Labels, classes and name are the graph's own unless others are given.
    """
    place = np.full(graph.num_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    edges = place[graph.edges]
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    own = None if graph.labels is None else graph.labels[nodes]
    return Graph.from_arrays(
        graph.attributes[nodes],
        edges[:, (edges >= 0).all(axis=0)],
        own if labels is None else labels,
        node_ids=ids[nodes],
        classes=graph.classes if classes is None else classes,
        name=name or graph.name,
    )


def ego_subgraph(graph: Graph, number: int) -> Graph:
    """The node of largest degree and those nearest to it, `number` nodes or fewer in all."""
    order = np.array([int(np.argmax(graph.degrees))])
    seen = np.zeros(graph.num_nodes, dtype=bool)
    seen[order] = True
    ring = order
    while len(order) < number and len(ring):
        near = np.unique(graph.adjacency[ring].indices)
        ring = near[~seen[near]]
        seen[ring] = True
        order = np.concatenate([order, ring])
    return subgraph(graph, np.sort(order[:number]))


def with_nodes(graph: Graph, attributes: Attributes, links: np.ndarray[Any, Any]) -> Graph:
    """`graph` with a node for each row of `attributes`, and with `links` [2, n] of the new nodes.

    In `links`, V is the first new node. The result has neither ids nor labels: it is the input of
    an encoder.
    """
    own: Any = graph.attributes
    joined: Any
    if isinstance(own, np.ndarray) and isinstance(attributes, np.ndarray):
        joined = np.concatenate([own, attributes])
    else:
        joined = sparse.vstack([sparse.csr_array(own), sparse.csr_array(attributes)], format="csr")
    return Graph.from_arrays(joined, np.concatenate([graph.edges, links], axis=1), name=graph.name)
