"""Parts of a graph: some of its nodes and the links among them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from xtcl.graph.graph import Graph


def induced(
    graph: Graph,
    nodes: np.ndarray,
    *,
    labels: np.ndarray | None = None,
    classes: Sequence[Hashable] | None = None,
    name: str | None = None,
) -> Graph:
    """The `nodes`, which are rising, with the links among them; they keep their ids.

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


def around_the_hub(graph: Graph, number: int) -> Graph:
    """About `number` nodes: the best linked one and those around it, the nearest first."""
    order = np.array([int(np.argmax(graph.degrees))])
    seen = np.zeros(graph.num_nodes, dtype=bool)
    seen[order] = True
    ring = order
    while len(order) < number and len(ring):
        near = np.unique(graph.adjacency[ring].indices)
        ring = near[~seen[near]]
        seen[ring] = True
        order = np.concatenate([order, ring])
    return induced(graph, np.sort(order[:number]))
