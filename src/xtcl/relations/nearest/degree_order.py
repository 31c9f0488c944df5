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
        data, nodes = [np.zeros(0, np.float32)], [np.zeros(0, np.int64)]
        begin = np.zeros(len(kinds), dtype=np.int64)
        offset = 0
        for kind in np.unique(kinds[length > 0]):
            row = kinds == kind
            value, node = self._order(kind, int(length[row].max()))
            data.append(value)
            nodes.append(node)
            begin[row] = offset
            length = np.where(row, np.minimum(length, len(node)), length)
            offset += len(node)
        entry = ranges(begin, length)
        start = np.concatenate([[0], np.cumsum(length)])
        shape = (len(kinds), len(self.members))
        return sp.csr_array(
            (np.concatenate(data)[entry], np.concatenate(nodes)[entry], start), shape=shape
        )

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
