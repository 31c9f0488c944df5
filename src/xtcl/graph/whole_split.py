"""A split that holds nothing back, for fitting on everything that is known."""

from __future__ import annotations

import numpy as np

from xtcl.errors import DataError
from xtcl.graph.draw import generator
from xtcl.graph.graph import Graph
from xtcl.graph.link_split import LinkSplit
from xtcl.graph.node_split import NodeSplit
from xtcl.graph.pairs import count_pairs, draw_non_links


def whole_split(graph: Graph, task: str, seed: int = 0) -> NodeSplit | LinkSplit:
    """All labelled nodes, or all links with as many non-links, on the training side."""
    none = np.zeros((2, 0), dtype=np.int64)
    if task == "links":
        non_links = count_pairs(graph.num_nodes) - graph.num_edges
        if graph.num_edges < 2 or non_links < 2:
            raise DataError(
                f"Graph '{graph.name}' has {graph.num_edges} links and {non_links} pairs without "
                "one; link prediction needs at least two of each."
            )
        number = min(graph.num_edges, non_links)
        negatives = draw_non_links(graph.edges, graph.num_nodes, number, generator(seed))
        return LinkSplit(graph.edges, none, negatives, none, graph.num_nodes, seed)
    labelled = np.arange(0) if graph.labels is None else np.flatnonzero(graph.labels >= 0)
    return NodeSplit(labelled, none[0], seed)
