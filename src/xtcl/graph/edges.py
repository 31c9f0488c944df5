"""Edges: checked, then brought to the one form that every graph has."""

from __future__ import annotations

from typing import Any

import numpy as np

from xtcl.errors import DataError
from xtcl.graph.arrays import IntArray, first_offenders, to_host
from xtcl.graph.repairs import Repairs


def check_edges(edges: object) -> np.ndarray[Any, Any]:
    """The edges as an integer [2, E] array; their range is checked once V is known."""
    if edges is None:
        return np.zeros((2, 0), np.int64)
    pairs = to_host(edges, "Edges")
    if not isinstance(pairs, np.ndarray):
        raise DataError("Edges are a sparse matrix; use Graph.from_scipy for an adjacency matrix.")
    if pairs.size == 0:  # [] has no integer dtype and no second axis, but says what it means
        return np.zeros((2, 0), np.int64)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        remedy = ""
        if pairs.ndim == 2 and pairs.shape[1] == 2:
            remedy = " This looks like one edge per row: transpose it (edges.T)."
        raise DataError(f"Edges must have the shape [2, E], not {list(pairs.shape)}.{remedy}")
    if pairs.dtype.kind not in "iu":
        remedy = (
            "use .astype(numpy.int64)" if pairs.dtype.kind == "f" else "number the nodes 0..V-1"
        )
        raise DataError(f"Edges must be integers, not {pairs.dtype}; {remedy}.")
    return pairs


def canonical_edges(
    pairs: np.ndarray[Any, Any], num_nodes: int, *, directed: bool = False
) -> tuple[IntArray, Repairs]:
    """Every undirected edge once with u < v, sorted, and what had to be repaired for that.

    `directed` says that the source is known to be directed, so that every one-way edge loses its
    direction; see `Repairs` for the rule without that knowledge. O(E log E).
    """
    wrong = ((pairs < 0) | (pairs >= num_nodes)).any(axis=0)
    if wrong.any():
        places = np.flatnonzero(wrong)
        shown = first_offenders(
            places, lambda at: f"({pairs[0, at]}, {pairs[1, at]}) in column {at}"
        )
        raise DataError(
            f"Edges must join nodes 0..{num_nodes - 1} (there are {num_nodes} nodes), "
            f"but not all do: {shown}. Renumber the nodes, or pass num_nodes if some are missing."
        )
    source, target = pairs.astype(np.int64)
    proper = source != target
    given = source[proper] * num_nodes + target[proper]  # V < 2^31, so this cannot overflow
    arcs = _distinct(given)
    source, target = np.divmod(arcs, num_nodes)
    low, high = np.minimum(source, target), np.maximum(source, target)
    keys = _distinct(low * num_nodes + high)
    two_way = len(arcs) - len(keys)
    one_way = len(keys) - two_way
    repairs = Repairs(
        duplicates_merged=len(given) - len(arcs),
        loops_dropped=int((~proper).sum()),
        directions_removed=one_way if directed or two_way else 0,
    )
    return np.stack(np.divmod(keys, num_nodes)), repairs


def _distinct(keys: IntArray) -> IntArray:
    """Sorted distinct keys; `np.unique` hashes first, over ten times slower (numpy 2.4)."""
    keys = np.sort(keys)
    return keys[np.concatenate(([True], keys[1:] != keys[:-1]))] if keys.size else keys


def both_directions(edges: IntArray, num_nodes: int) -> IntArray:
    """[2, 2E] from canonical [2, E], sorted by (row, column)."""
    low, high = edges
    keys = np.concatenate((low * num_nodes + high, high * num_nodes + low))
    keys.sort()
    return np.stack(np.divmod(keys, num_nodes))
