"""Breadth-first search from many nodes at once, a bit for each of them.

With a float for each node that is searched from, a step reads and writes 4 b V bytes several times
and falls out of a CPU's cache where a graph has some ten thousand nodes; with a bit it is a
thirty-second of that. How many steps reach a pair is counted in bits as well: plane p of the
counters holds bit p of every count.

Cost: O(b (E + V) / 64) words for a step from b nodes, and O(b V) for the answer.
Citation: Then, Kaufmann, Chirigati, Hoang-Vu, Pham, Kemper, Neumann and Vo, "The More the Merrier:
Efficient Multi-Source Graph Traversal", VLDB 2014.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

WORD = 64
FEW = 128
"""Nodes whose further neighbours are asked all at once, not the k-th ones together."""


class BitSearch:
    """The links of a graph, in the order that a step asks for them.

    Nodes with many neighbours come first, so those that have a k-th neighbour are a slice, and
    asking all k-th neighbours at once is one call.
    """

    def __init__(self, adjacency: sp.csr_array) -> None:
        order = np.argsort(-np.diff(adjacency.indptr), kind="stable")
        self._place = np.argsort(order)
        links = sp.csr_array(adjacency[order][:, order])
        start, fewer = links.indptr, -np.diff(links.indptr)  # which rise
        self._nth: list[np.ndarray] = []
        asking = np.searchsorted(fewer, 0)
        while asking > FEW:
            self._nth.append(links.indices[start[:asking] + len(self._nth)])
            asking = np.searchsorted(fewer, -len(self._nth))
        first = start[:asking] + len(self._nth)
        further = [links.indices[a:b] for a, b in zip(first, start[1 : asking + 1], strict=True)]
        self._further = np.concatenate([start[:0], *further])
        self._begin = np.cumsum([0, *map(len, further[:-1])])[:asking]

    def steps_within_reach(self, nodes: np.ndarray, most: int) -> np.ndarray:
        """With how many of the steps 1 .. `most` each node is within reach of each of `nodes`.

        The smallest unsigned integers that hold `most`, [b, V].
        """
        turn = np.arange(len(nodes))
        size = (len(self._place), -(-len(nodes) // WORD))
        within = np.zeros(size, dtype=np.uint64)
        own_bit = (1 << turn % 8).astype(np.uint8)
        np.bitwise_or.at(within.view(np.uint8), (self._place[nodes], turn // 8), own_bit)
        counters = np.zeros((most.bit_length(), *size), dtype=np.uint64)
        for step in range(1, most + 1):
            following = self._step(within)
            if np.array_equal(following, within):
                _add(counters, within, most - step + 1)
                break
            within = following
            _add(counters, within, 1)
        return _numbers(counters[:, self._place], most)[: len(nodes)]

    def _step(self, within: np.ndarray) -> np.ndarray:
        """Who is within reach of a node or one of its neighbours."""
        following = within.copy()
        for neighbour in self._nth:
            following[: len(neighbour)] |= np.take(within, neighbour, axis=0)
        if len(self._begin):
            near = np.take(within, self._further, axis=0)
            following[: len(self._begin)] |= np.bitwise_or.reduceat(near, self._begin, axis=0)
        return following


def _add(counters: np.ndarray, counted: np.ndarray, times: int) -> None:
    """Add `times` to the counters of the bits that are `counted`, in place."""
    for plane in range(times.bit_length()):
        if times >> plane & 1:
            carry = counted
            for bits in counters[plane:]:
                carry, bits[:] = bits & carry, bits ^ carry


def _numbers(counters: np.ndarray, most: int) -> np.ndarray:
    """What the counters [planes, V, words] hold, `most` at most, turned to [64 words, V].

    Bytes are turned while a bit in them stands for a number: turning numbers would cost more than
    all else.
    """
    planes = np.ascontiguousarray(counters.view(np.uint8).swapaxes(1, 2))
    numbers = np.zeros((planes.shape[1], 8, planes.shape[2]), np.min_scalar_type(most))
    for plane, packed in enumerate(planes):
        for bit in range(8):
            numbers[:, bit] |= (packed >> bit & 1).astype(numbers.dtype, copy=False) << plane
    return numbers.reshape(-1, planes.shape[2])
