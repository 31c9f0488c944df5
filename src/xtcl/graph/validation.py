"""What must hold between the parts of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from xtcl.errors import DataError, first_few
from xtcl.graph.arrays import Attributes, to_array

if TYPE_CHECKING:
    from xtcl.graph.graph import Graph

MAX_NODES = 2**31 - 1  # so that a pair of nodes fits one 64-bit key


def count_nodes(
    num_nodes: int | None,
    attributes: Attributes | None,
    node_ids: object,
    labels: object,
    pairs: np.ndarray[Any, Any],
) -> int:
    """V, from the first of these that says it; contradictions between the first two are refused.

    Of node ids and labels only the length counts here, of edges only the largest entry.
    """
    if (attributes is None or attributes.shape[1] == 0) and not pairs.size:
        raise DataError("The graph has neither attributes nor edges; give at least one of them.")
    if num_nodes is not None:
        if isinstance(num_nodes, bool) or not isinstance(num_nodes, (int, np.integer)):
            raise DataError(f"num_nodes must be an integer, not {num_nodes!r}.")
        if attributes is not None and attributes.shape[0] != num_nodes:
            raise DataError(
                f"num_nodes is {num_nodes}, but there are {attributes.shape[0]} attribute rows; "
                "leave num_nodes out, or give one row per node."
            )
        count = int(num_nodes)
    elif attributes is not None:
        count = int(attributes.shape[0])
    elif node_ids is not None or labels is not None:
        count = to_array(labels if node_ids is None else node_ids, "Labels and node ids").size
    else:
        count = max(0, int(pairs.max()) + 1)
    if count < 2:
        raise DataError(f"A graph needs at least two nodes, but there are {count}.")
    if count > MAX_NODES:
        raise DataError(f"{count} nodes are too many; number the nodes 0..V-1 without gaps.")
    return count


def check_node_ids(node_ids: object, num_nodes: int) -> np.ndarray[Any, Any] | None:
    """A copy of the ids, which must be distinct, one per node."""
    if node_ids is None:
        return None
    ids = to_array(node_ids, "Node ids")
    if ids.ndim != 1 or len(ids) != num_nodes:
        raise DataError(
            f"Node ids have the shape {list(ids.shape)}, but there are {num_nodes} nodes; "
            "give one id per node."
        )
    ids = id_array(ids.tolist()) if ids.dtype.kind == "O" else ids.copy()
    try:
        repeated = [value for value, times in Counter(ids.tolist()).items() if times > 1]
    except TypeError as error:
        raise DataError(f"Node ids must be plain values ({error}).") from error
    if repeated:
        raise DataError(f"Node ids must be distinct, but these repeat: {first_few(repeated)}.")
    return ids


def id_array(ids: Sequence[object]) -> np.ndarray[Any, Any]:
    """Ids as int64 or strings where all are one of these, else as objects."""
    if all(_is_int64(value) for value in ids):
        return np.array(ids, np.int64)
    if all(isinstance(value, str) for value in ids):
        return np.array(ids, np.str_)
    result = np.empty(len(ids), object)
    result[:] = ids
    return result


def _is_int64(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        return False
    return -(2**63) <= int(value) < 2**63


def check_invariants(graph: Graph) -> None:
    """Refuse a graph that was put together by hand and is not canonical. O(V + E)."""
    attributes, edges, labels = graph.attributes, graph.edges, graph.labels
    low, high = edges if edges.ndim == 2 and len(edges) == 2 else (np.ones(1), np.zeros(1))
    keys_rise = (low[1:] > low[:-1]) | ((low[1:] == low[:-1]) & (high[1:] > high[:-1]))
    sound = (
        isinstance(attributes, (np.ndarray, sparse.csr_array))
        and attributes.ndim == 2
        and attributes.dtype == np.float32
        and edges.dtype == np.int64
        and bool((low < high).all() and keys_rise.all())
        and (not low.size or bool(low[0] >= 0 and high.max() < attributes.shape[0]))
    )
    if labels is not None:
        sound &= labels.dtype == np.int64 and labels.shape == attributes.shape[:1]
        sound &= bool((labels >= -1).all() and (labels < graph.num_classes).all())
    if graph.encoding is not None:
        sound &= len(graph.encoding.attributes) == graph.num_attributes
    if not sound:
        raise DataError("These arrays are not canonical; Graph.from_arrays makes them so.")
