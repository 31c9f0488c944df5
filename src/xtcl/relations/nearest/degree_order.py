"""All nodes in the order of a similarity that depends on two degrees only."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from xtcl.relations.nearest.parts import ranges


class DegreeOrder:
    """Node v is of kind `kind[v]`, and `table` [K, K] is the similarity of two kinds."""

    def __init__(self, kind: np.ndarray, table: np.ndarray) -> None:
        self.table = table
        self.members = np.argsort(kind, kind="stable")
        self.size = np.bincount(kind, minlength=len(table))
        self.start = np.cumsum(self.size) - self.size

    def first(self, kinds: np.ndarray, length: np.ndarray) -> sp.csr_array:
        """For a node of each kind its `length` most similar nodes, equals in their order."""
        length = np.minimum(length, len(self.members))
        longest = np.zeros(len(self.table), dtype=np.int64)
        np.maximum.at(longest, kinds, length)
        begin, values, nodes = self.orders(longest)
        entry = ranges(begin[kinds], length)
        start = np.concatenate([[0], np.cumsum(length)])
        shape = (len(kinds), len(self.members))
        return sp.csr_array((values[entry], nodes[entry], start), shape=shape)

    def orders(self, length: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first `length` [K] nodes for every kind, one kind after the other.

        Where those of a kind begin [K], similarities and nodes.
        """
        values, nodes = [np.zeros(0, np.float32)], [np.zeros(0, np.int64)]
        for kind in np.flatnonzero(length).tolist():
            value, node = self._order(kind, int(length[kind]))
            values.append(value)
            nodes.append(node)
        return np.cumsum(length) - length, np.concatenate(values), np.concatenate(nodes)

    def _order(self, kind: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        value = self.table[kind]
        descending = np.argsort(-value, kind="stable")
        reached = np.searchsorted(np.cumsum(self.size[descending]), length)
        chosen = np.flatnonzero(value >= value[descending[reached]])
        taken = np.minimum(self.size[chosen], length)
        nodes = self.members[ranges(self.start[chosen], taken)]
        values = np.repeat(value[chosen], taken)
        order = np.lexsort((nodes, -values))[:length]
        return values[order], nodes[order]
