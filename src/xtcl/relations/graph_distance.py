"""Shortest-path distance, turned into a similarity."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError, is_number
from xtcl.relations.blocks import thread_map
from xtcl.relations.diameter import MOST_STEPS, largest_component_diameter
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.sparse import (
    SparseRows,
    is_among,
    kernels_run_on,
    ranges,
    sorted_keys,
    to_device,
)
from xtcl.relations.topk import TopK, TopKSearch, topk_in_parts
from xtcl.relations.view import LINKS, TrainingView

TOPK_SEARCHES = 16
"""Searches for the diameter in top-k mode, unless the relation limits them itself."""


@dataclass(frozen=True)
class GraphDistance(Relation):
    r"""Two nodes are alike when few steps lead from one to the other.

    .. math:: s(u, v) = \frac{D - d(u, v) + 1}{D}

    with D the diameter of the largest connected component, and 0 between components.

    Range: [0, 1] between different nodes. Symmetric. Only the order within a row matters to the
    sampler, so a component wider than D loses nothing but the order beyond D steps.
    Cost: O(E + b V) memory, O(b V) and D steps of O(b E / 64) words for b rows; finding D takes a
    few searches of O(E) on most graphs and V of them in the worst case.
    Isolated node: 0 to every other node.
    Citation: Dijkstra, "A note on two problems in connexion with graphs", Numerische Mathematik 1,
    1959.

    On random graphs finding D is what takes longest. `searches` is a limit for it, after which D is
    the least bound known: similarities change, their order does not.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(GraphDistance(), path_of_four(), [0])
    [[1.0, 1.0, 0.667, 0.333]]
    """

    searches: int | None = None

    name: ClassVar[str] = "graph-distance"
    title: ClassVar[str] = "Graph Distance"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    cacheable: ClassVar[bool] = True
    in_range: ClassVar[bool] = True
    row_by_row: ClassVar[bool] = True
    by_threads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.searches is not None and (not is_number(self.searches) or self.searches < 1):
            raise UsageError(f"GraphDistance needs one search at least, not {self.searches}.")

    def diameter(self, view: TrainingView) -> int:
        """D, found once."""
        key = ("diameter", self.searches)
        return view.cached(
            key, lambda: largest_component_diameter(view.adjacency, self.searches, view.device)
        )

    def prepare(self, view: TrainingView) -> Rows:
        """Find the diameter once; then search breadth-first from many nodes together."""
        diameter = self.diameter(view)
        on_gpu = kernels_run_on(view.device) and diameter < MOST_STEPS
        return (_by_kernel if on_gpu else _by_words)(view, diameter)

    def in_topk_mode(self) -> GraphDistance:
        """With a bound for D after a few searches: it does not change the order of a row.

        On random graphs finding D takes a search from every other node.
        """
        return self if self.searches is not None else replace(self, searches=TOPK_SEARCHES)

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch:
        """Exact: breadth-first search from all nodes of a part, until each has found k others.

        Of each node's neighbours only the first k + 1 are read, so hubs cost no more than that.
        This is enough, because nodes at the same distance are taken in the order of their numbers.
        Say that a search from u has found n other nodes. At most n + 1 of the neighbours, with u,
        are known then, and the first k - n of the rest complete the list. Where fewer than k - n
        new nodes are found, all neighbours were read.

        Cost: a sort of O(min(k^2, E)) entries for a row, whatever the degrees.
        """
        num_nodes = view.num_nodes
        relation = self.in_topk_mode() if top.k < num_nodes - 1 else self
        diameter = relation.diameter(view)
        steps = torch.arange(diameter + 1, 0, -1, dtype=torch.float32, device=view.device)
        similarity = steps / diameter  # of nodes 0, 1, ..., D steps away
        links = view.links()
        length = links.degree.clamp_max(top.k + 1)

        def explore(nodes: Tensor) -> SparseRows:
            frontier = torch.arange(len(nodes), device=nodes.device) * num_nodes + nodes
            ball, rings = frontier, [frontier]
            size = torch.zeros_like(nodes)  # of the others that each search has found
            for _ in range(1, len(similarity)):
                node = frontier % num_nodes
                whose, entry = ranges(links.start[node], length[node])
                first = (frontier - node).index_select(0, whose)
                reached = sorted_keys(first + links.column.index_select(0, entry))
                reached = torch.unique_consecutive(reached)
                new = reached[~is_among(reached, ball)]
                if not len(new):
                    break
                rings.append(new)
                ball = sorted_keys(torch.cat([ball, new]))
                row = new // num_nodes
                size += torch.bincount(row, minlength=len(nodes))
                frontier = new[size[row] < top.k]
            # The number of steps lies below the key, so that one sort puts both in order.
            steps = len(rings)
            key = torch.cat([ring * steps + step for step, ring in enumerate(rings)])
            distance = sorted_keys(key) - ball * steps
            value = similarity.index_select(0, distance)
            return SparseRows.from_keys(ball, value, len(nodes), num_nodes)

        bound = min(top.k * (top.k + 1), view.adjacency.nnz)
        return topk_in_parts(explore, np.full(num_nodes, bound), top, view)


def _by_words(view: TrainingView, diameter: int) -> Rows:
    """D - d + 1 is the number of steps 1 .. D with which a node is within reach."""
    search = BitParallelBFS(view.adjacency)

    def steps(nodes: np.ndarray) -> np.ndarray:
        return search.steps_within_reach(nodes, diameter)

    def compute(nodes: Tensor) -> Tensor:
        share = math.ceil(len(nodes) / torch.get_num_threads() / BITS_PER_WORD) * BITS_PER_WORD
        parts = torch.split(nodes.cpu(), share)
        found = thread_map(steps, [part.numpy() for part in parts])
        return torch.from_numpy(np.concatenate(found)).to(view.device, torch.float32) / diameter

    return compute


def _by_kernel(view: TrainingView, diameter: int) -> Rows:
    """The same from a kernel."""
    from xtcl.relations.triton_kernels import steps_within_reach_by_node

    links = to_device(view.adjacency, view.device)
    start, end = links.crow_indices(), links.col_indices()

    def compute(nodes: Tensor) -> Tensor:
        steps = steps_within_reach_by_node(start, end, nodes, diameter)
        return steps.T.to(torch.float32, memory_format=torch.contiguous_format).div_(diameter)

    return compute


BITS_PER_WORD = 64


MIN_ROWS_PER_PASS = 128
"""With more rows than this the k-th neighbours are read in one pass; further neighbours of the
others are read all at once."""


class BitParallelBFS:
    """Breadth-first search from many nodes at once, with a bit for each of them.

    With a float for each source a step reads and writes 4 b V bytes several times and falls out of
    a CPU's cache where a graph has some ten thousand nodes; bits take a thirty-second of that. How
    many steps reach a pair is counted in bits as well: plane p of the counters holds bit p of every
    count. Nodes with many neighbours come first, so those that have a k-th neighbour are a slice,
    and reading all k-th neighbours is one call.

    Cost: O(b (E + V) / 64) words for a step from b nodes, and O(b V) for the answer.
    Citation: Then, Kaufmann, Chirigati, Hoang-Vu, Pham, Kemper, Neumann and Vo, "The More the
    Merrier: Efficient Multi-Source Graph Traversal", VLDB 2014.
    """

    def __init__(self, adjacency: sp.csr_array) -> None:
        order = np.argsort(-np.diff(adjacency.indptr), kind="stable")
        self._place = np.argsort(order)
        links = sp.csr_array(adjacency[order][:, order])
        start, fewer = links.indptr, -np.diff(links.indptr)  # ascending
        self._nth: list[np.ndarray] = []
        active = np.searchsorted(fewer, 0)
        while active > MIN_ROWS_PER_PASS:
            self._nth.append(links.indices[start[:active] + len(self._nth)])
            active = np.searchsorted(fewer, -len(self._nth))
        first = start[:active] + len(self._nth)
        further = [links.indices[a:b] for a, b in zip(first, start[1 : active + 1], strict=True)]
        self._further = np.concatenate([start[:0], *further])
        self._begin = np.cumsum([0, *map(len, further[:-1])])[:active]

    def steps_within_reach(self, nodes: np.ndarray, max_steps: int) -> np.ndarray:
        """For each of `nodes`, in how many of the steps 1 .. `max_steps` each node is within reach.

        Shape [b, V], in the smallest unsigned integers that hold `max_steps`.
        """
        source = np.arange(len(nodes))
        size = (len(self._place), -(-len(nodes) // BITS_PER_WORD))
        within = np.zeros(size, dtype=np.uint64)
        own_bit = (1 << source % 8).astype(np.uint8)
        np.bitwise_or.at(within.view(np.uint8), (self._place[nodes], source // 8), own_bit)
        counters = np.zeros((max_steps.bit_length(), *size), dtype=np.uint64)
        for step in range(1, max_steps + 1):
            following = self._step(within)
            if np.array_equal(following, within):
                _add(counters, within, max_steps - step + 1)
                break
            within = following
            _add(counters, within, 1)
        return _numbers(counters[:, self._place], max_steps)[: len(nodes)]

    def _step(self, within: np.ndarray) -> np.ndarray:
        """What is within reach of a node or of one of its neighbours."""
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


def _numbers(counters: np.ndarray, max_number: int) -> np.ndarray:
    """What the counters [planes, V, words] hold, `max_number` at most, turned to [64 words, V].

    Bytes are turned while a bit in them stands for a number: turning numbers would cost more than
    all else.
    """
    planes = np.ascontiguousarray(counters.view(np.uint8).swapaxes(1, 2))
    numbers = np.zeros((planes.shape[1], 8, planes.shape[2]), np.min_scalar_type(max_number))
    for plane, packed in enumerate(planes):
        for bit in range(8):
            numbers[:, bit] |= (packed >> bit & 1).astype(numbers.dtype, copy=False) << plane
    return numbers.reshape(-1, planes.shape[2])
