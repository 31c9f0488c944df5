"""Shortest-path distance, turned into a similarity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.relations.blocks import thread_map
from xtcl.relations.common_neighbours import Links
from xtcl.relations.diameter import MOST_STEPS, largest_component_diameter
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.sparse import is_among, kernels_run_on, ranges, to_device
from xtcl.relations.topk import Cut, Lists, Nearest, in_parts, in_parts_numpy, ranges_numpy
from xtcl.relations.view import LINKS, TrainingView


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

    >>> from xtcl.relations.relation import path_of_four, rows
    >>> rows(GraphDistance(), path_of_four(), [0])
    [[1.0, 1.0, 0.667, 0.333]]
    """

    searches: int | None = None

    name: ClassVar[str] = "graph-distance"
    title: ClassVar[str] = "Graph Distance"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    row_by_row: ClassVar[bool] = True
    by_threads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.searches is not None and self.searches < 1:
            raise UsageError(f"GraphDistance needs one search at least, not {self.searches}.")

    def diameter(self, view: TrainingView) -> int:
        """D, found once."""
        key = ("diameter", self.searches)
        return view.once(
            key, lambda: largest_component_diameter(view.adjacency, self.searches, view.device)
        )

    def prepare(self, view: TrainingView) -> Rows:
        """Find the diameter once; then search breadth-first from many nodes together."""
        diameter = self.diameter(view)
        on_gpu = kernels_run_on(view.device) and diameter < MOST_STEPS
        return (_by_kernel if on_gpu else _by_words)(view, diameter)


def _by_words(view: TrainingView, diameter: int) -> Rows:
    """D - d + 1 is the number of steps 1 .. D with which a node is within reach."""
    search = BitParallelBFS(view.adjacency)

    def steps(nodes: np.ndarray) -> np.ndarray:
        return search.steps_within_reach(nodes, diameter)

    def compute(nodes: Tensor) -> Tensor:
        share = math.ceil(len(nodes) / torch.get_num_threads() / WORD) * WORD
        parts = torch.split(nodes.cpu(), share)
        found = thread_map(steps, [part.numpy() for part in parts])
        return torch.from_numpy(np.concatenate(found)).to(view.device, torch.float32) / diameter

    return compute


def _by_kernel(view: TrainingView, diameter: int) -> Rows:
    """The same from a kernel."""
    from xtcl.relations.triton_kernels import steps_within_reach

    links = to_device(view.adjacency, view.device)
    start, end = links.crow_indices(), links.col_indices()

    def compute(nodes: Tensor) -> Tensor:
        steps = steps_within_reach(start, end, nodes, diameter)
        return steps.T.to(torch.float32, memory_format=torch.contiguous_format).div_(diameter)

    return compute


# Graph distance: breadth-first search until the ball is full.
#
# Nodes at the same distance are taken in their order, so of each node's neighbours only the first
# cap + 1 can ever be chosen: with n nodes in the ball, u itself not counted, at most n + 1 of them
# are there already, and the cap - n first of the others do. Where fewer than cap - n new nodes
# come
# out, no list was cut short. So hubs cost no more than cap + 1 steps.
#
# The order of a row does not hang on D, and on random graphs finding D takes a search from every
# other node. So where the cap leaves something out, D is a bound after a few searches.


SEARCHES = 16
"""Searches for D, unless the relation says how many."""


def distance_similarity(relation: GraphDistance, view: TrainingView, cut: Cut) -> Tensor:
    """That of nodes 0, 1, ..., D steps away: float32 [D + 1]."""
    if relation.searches is None and cut.cap < view.num_nodes - 1:
        relation = GraphDistance(searches=SEARCHES)
    diameter = relation.diameter(view)
    steps = torch.arange(diameter + 1, 0, -1, dtype=torch.float32, device=view.device)
    return steps / diameter


def nearest_by_distance_numpy(relation: GraphDistance, view: TrainingView, cut: Cut) -> Nearest:
    """Exact. Cost: O(min(cap^2, E)) for a row, whatever the degrees."""
    num_nodes = view.num_nodes
    similarity = distance_similarity(relation, view, cut).cpu().numpy()
    links = sp.csr_array(view.adjacency).sorted_indices()
    length = np.minimum(np.diff(links.indptr), cut.cap + 1)

    def explore(nodes: np.ndarray) -> sp.csr_array:
        frontier = np.arange(len(nodes)) * num_nodes + nodes  # row * V + node
        seen, distance = frontier, np.zeros(len(nodes), dtype=np.int64)
        for step in range(1, len(similarity)):
            row, node = np.divmod(frontier, num_nodes)
            neighbours = links.indices[ranges_numpy(links.indptr[node], length[node])]
            reached = _distinct(np.repeat(row, length[node]) * num_nodes + neighbours)
            place = np.searchsorted(seen, reached)
            new = reached[seen[np.minimum(place, len(seen) - 1)] != reached]
            if not len(new):
                break
            place = np.searchsorted(seen, new)
            seen, distance = np.insert(seen, place, new), np.insert(distance, place, step)
            size = np.bincount(seen // num_nodes, minlength=len(nodes)) - 1
            frontier = new[size[new // num_nodes] < cut.cap]
        row, node = np.divmod(seen, num_nodes)
        start = np.searchsorted(row, np.arange(len(nodes) + 1))
        return sp.csr_array((similarity[distance], node, start), shape=(len(nodes), num_nodes))

    return in_parts_numpy(explore, np.full(num_nodes, most_steps(view, cut)), cut, view)


def most_steps(view: TrainingView, cut: Cut) -> int:
    """Neighbours that one search looks at together, at most."""
    return min(cut.cap * (cut.cap + 1), view.adjacency.nnz)


def _distinct(keys: np.ndarray) -> np.ndarray:
    keys.sort()
    return keys[np.diff(keys, prepend=-1) > 0]


# Graph distance: breadth-first search from all nodes of a part, until each ball is full.
#
# Why only the first cap + 1 neighbours of a node are looked at says `nearest.graph_distance`.


def nearest_by_distance(relation: GraphDistance, view: TrainingView, cut: Cut) -> Nearest:
    """Exact. Cost: a sort of O(min(cap^2, E)) entries for a row, whatever the degrees."""
    num_nodes = view.num_nodes
    similarity = distance_similarity(relation, view, cut)
    links = Links.among(view)
    length = links.degree.clamp_max(cut.cap + 1)

    def explore(nodes: Tensor) -> Lists:
        frontier = torch.arange(len(nodes), device=nodes.device) * num_nodes + nodes
        shape = (len(nodes), num_nodes)
        ball = Lists(frontier, torch.zeros_like(frontier), shape)  # with the distance of each
        for step in range(1, len(similarity)):
            node = frontier % num_nodes
            whose, entry = ranges(links.start[node], length[node])
            reached = torch.unique((frontier - node)[whose] + links.end[entry])
            new = reached[~is_among(reached, ball.key)]
            if not len(new):
                break
            distance = torch.cat([ball.value, torch.full_like(new, step)])
            ball = Lists.sorted(torch.cat([ball.key, new]), distance, shape)
            size = ball.start.diff() - 1
            frontier = new[size[new // num_nodes] < cut.cap]
        return Lists(ball.key, similarity[ball.value], shape)

    return in_parts(explore, np.full(num_nodes, most_steps(view, cut)), cut, view)


# Breadth-first search from many nodes at once, a bit for each of them.
#
# With a float for each node that is searched from, a step reads and writes 4 b V bytes several
# times
# and falls out of a CPU's cache where a graph has some ten thousand nodes; with a bit it is a
# thirty-second of that. How many steps reach a pair is counted in bits as well: plane p of the
# counters holds bit p of every count.
#
# Cost: O(b (E + V) / 64) words for a step from b nodes, and O(b V) for the answer.
# Citation: Then, Kaufmann, Chirigati, Hoang-Vu, Pham, Kemper, Neumann and Vo, "The More the
# Merrier:
# Efficient Multi-Source Graph Traversal", VLDB 2014.


WORD = 64


FEW = 128
"""Nodes whose further neighbours are asked all at once, not the k-th ones together."""


class BitParallelBFS:
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
