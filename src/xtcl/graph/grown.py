"""A graph with further nodes, which come after those it has."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from xtcl.graph.arrays import Attributes
from xtcl.graph.graph import Graph


def grown(graph: Graph, attributes: Attributes, links: np.ndarray[Any, Any]) -> Graph:
    """`graph` with a node for each row of `attributes`, and with `links` [2, n] of the new nodes.

    In `links`, V is the first new node. Its ids and labels are not the grown graph's: it is there
    to be looked at by an encoder.
    """
    own: Any = graph.attributes
    joined: Any
    if isinstance(own, np.ndarray) and isinstance(attributes, np.ndarray):
        joined = np.concatenate([own, attributes])
    else:
        joined = sparse.vstack([sparse.csr_array(own), sparse.csr_array(attributes)], format="csr")
    return Graph.from_arrays(joined, np.concatenate([graph.edges, links], axis=1), name=graph.name)
