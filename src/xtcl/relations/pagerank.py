"""PageRank: whole rows by Chebyshev iteration, the best of a row by forward push."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError, is_number
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.sparse import (
    CSRGraph,
    SparseRows,
    is_among,
    kernels_run_on,
    product,
    scaled,
    to_device,
)
from xtcl.relations.topk import TopK, TopKSearch, map_parts, max_items, topk_of_lists
from xtcl.relations.view import LINKS, TrainingView

RELATIVE_PUSH_ERROR = 0.1
"""The error of a push, as a fraction of the mean similarity of the k best nodes."""

SOURCES, SOURCES_GPU = 2**10, 2**13
"""Nodes that are pushed from together, until they take too much memory."""

TOLERANCE = 1e-8
"""Residual left by the iteration. Similarities under ten times this are noise and count as 0."""

Solve = Callable[[Tensor], Tensor]
"""Takes nodes u [b], returns a solution in each column [V, b]."""


def products(alpha: float) -> int:
    """How many products Chebyshev iteration takes to TOLERANCE."""
    rate = alpha / (1 + math.sqrt(1 - alpha**2))
    return math.ceil(math.log(TOLERANCE / 2) / math.log(rate))


@dataclass(frozen=True)
class PageRank(Relation):
    r"""Where a random walk that starts at u, and returns there now and then, spends its time.

    .. math:: \pi_u = \alpha P \pi_u + (1 - \alpha) e_u, \qquad s(u, v) = \pi_{u,v},
              \qquad P = A D^{-1}

    Range: [0, 1]; with its own entry the row of a linked node sums to 1. Not symmetric:
    s(u, v) d_u = s(v, u) d_v, with d the degrees.
    Cost: O(E + b V) memory, O(k b E) for b rows with k products. The symmetric form of the equation
    has its spectrum in [1 - alpha, 1 + alpha], so Chebyshev iteration needs k = 33 products at
    alpha = 0.85 where the power iteration needs 113.
    On a CPU: torch sparse products; top-k mode pushes with SciPy (`ScipyPush`). On a GPU: the
    Triton kernel `add_product_`, and `TorchPush`.
    Isolated node: 0 to every other node.
    Citation: Page, Brin, Motwani and Winograd, "The PageRank Citation Ranking", 1999.

    >>> from xtcl.relations.examples import path_of_four, rows
    >>> rows(PageRank(alpha=0.5), path_of_four(), [0])
    [[0.578, 0.311, 0.089, 0.022]]
    """

    alpha: float = 0.85

    name: ClassVar[str] = "pagerank"
    title: ClassVar[str] = "PageRank"
    reads: ClassVar[frozenset[str]] = frozenset({LINKS})
    cacheable: ClassVar[bool] = True
    in_range: ClassVar[bool] = True
    by_columns: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not is_number(self.alpha) or not 0 < self.alpha < 1:
            raise UsageError(f"PageRank needs 0 < alpha < 1, not {self.alpha}; 0.85 is usual.")

    def prepare(self, view: TrainingView) -> Rows:
        """Scale the adjacency symmetrically once; a block of rows is one block of right sides."""
        degree = np.maximum(np.asarray(view.adjacency.sum(axis=1), dtype=np.float64), 1.0)
        root = np.sqrt(degree)
        symmetric = scaled(view.adjacency, self.alpha / root, 1.0 / root)
        solve = self._solver(symmetric.astype(np.float32), view.device)
        scale = torch.tensor(root, dtype=torch.float32, device=view.device)

        def compute(nodes: Tensor) -> Tensor:
            solution = solve(nodes)
            rank = (1 - self.alpha) * solution.T * scale / scale[nodes, None]
            return torch.where(rank > 10 * TOLERANCE, rank, 0.0)

        return compute

    def _solver(self, walk: sp.csr_array, device: torch.device) -> Solve:
        """Chebyshev iteration for (I - walk) y = e_u, walk symmetric with spectrum ±alpha.

        A step is y' = w (walk y + e_u - y_before) + y_before, with a weight w that converges.
        """
        step = _triton_step(walk, device) if kernels_run_on(device) else _torch_step(walk, device)

        def solve(nodes: Tensor) -> Tensor:
            before = torch.zeros(walk.shape[0], len(nodes), device=device)
            current = before.clone()
            current.scatter_(0, nodes[None], 1.0)  # e_u in the column of u
            weight = 2.0
            for _ in range(products(self.alpha)):
                weight = 1 / (1 - self.alpha**2 * weight / 4)
                step(before, current, nodes, weight)
                before, current = current, before
            return current

        return solve

    def topk(self, view: TrainingView, top: TopK) -> TopKSearch | None:
        r"""Forward push: within `push_error`, and whole rows where the threshold decides.

        With :math:`G = (1 - \alpha)(I - \alpha P)^{-1}`, so that :math:`\pi_u = G e_u`, an estimate
        p and a residual r keep :math:`\pi_u = p + G r`. A push of v moves
        :math:`(1 - \alpha) r_v` to :math:`p_v` and spreads :math:`\alpha r_v` over the neighbours.
        It ends with :math:`r_w \le \epsilon d_w` everywhere, and since
        :math:`\pi_{w,v} d_w = \pi_{v,w} d_v`,

        .. math:: 0 \le \pi_{u,v} - p_v = \sum_w r_w \pi_{w,v}
                  = d_v \sum_w \frac{r_w}{d_w} \pi_{v,w} \le \epsilon d_v.

        What is left of :math:`G r` starts with :math:`(1 - \alpha) r`, which costs nothing to add:
        p stays below :math:`\pi` and comes closer.

        Cost: at most :math:`1 / (\epsilon (1 - \alpha))` steps for a row, each to a neighbour.
        Citation: Andersen, Chung and Lang, "Local graph partitioning using PageRank vectors",
        FOCS 2006.
        """
        if top.full:
            return None
        error = push_error(view, top.k)
        # There are two implementations: products of SciPy take 0.4 of torch's time on a CPU.
        push: Push
        if view.device.type == "cpu":
            push = ScipyPush(view.adjacency, self.alpha, error)
        else:
            push = TorchPush(view.links(), self.alpha, error)

        def best(sources: Tensor) -> SparseRows:
            return SparseRows.joined(
                [topk_of_lists(lists, nodes, top) for nodes, lists in push(sources)]
            )

        def search(nodes: Tensor) -> SparseRows:
            number = SOURCES if view.device.type == "cpu" else SOURCES_GPU
            return SparseRows.joined(map_parts(best, torch.split(nodes.to(view.device), number)))

        return search


ChebyshevStep = Callable[[Tensor, Tensor, Tensor, float], None]
"""Takes y_before, which becomes y', y, the nodes u and w."""


def _torch_step(walk: sp.csr_array, device: torch.device) -> ChebyshevStep:
    links = to_device(walk, device)

    def step(before: Tensor, current: Tensor, nodes: Tensor, weight: float) -> None:
        before.lerp_(product(links, current), weight)
        before[nodes, torch.arange(len(nodes), device=device)] += weight

    return step


def _triton_step(walk: sp.csr_array, device: torch.device) -> ChebyshevStep:
    from xtcl.relations.triton_kernels import LinkSegments, add_product_

    links = LinkSegments.of(walk, device)

    def step(before: Tensor, current: Tensor, nodes: Tensor, weight: float) -> None:
        add_product_(before, links, current, nodes, 1 - weight, weight, weight)

    return step


Push = Callable[[Tensor], Iterator[tuple[Tensor, SparseRows]]]
"""Takes nodes, returns some of them at a time, in their order, with estimates of their rows."""


def push_error(view: TrainingView, k: int) -> float:
    r""":math:`\epsilon`: with the k best wanted, s(u, v) is at most this times d_v too small.

    If all of the walk stayed in a set of k nodes of mean degree, each link's end there would have a
    share of :math:`1 / (k \cdot \bar d)`. :math:`\epsilon` is the fraction RELATIVE_PUSH_ERROR of
    it: the error is small against what the k best have in the mean, and the cost grows like k times
    the links.
    """
    return RELATIVE_PUSH_ERROR / (k * max(view.adjacency.nnz / view.num_nodes, 1.0))


class PushState(NamedTuple):
    """What was reached so far, by source and node: keys source * V + node, sorted ascending."""

    key: Tensor  # int64 [m]
    found: Tensor  # float64 [m], the estimate p
    left: Tensor  # float64 [m], the residual r
    large: Tensor  # int64, the places of residuals to push, ascending

    def halves(self, middle: int, num_nodes: int) -> tuple[PushState, PushState]:
        """The sources before `middle`, and the others."""
        entry = int(torch.searchsorted(self.key, middle * num_nodes))
        place = int(torch.searchsorted(self.large, entry))
        key, found, left, large = self
        before = PushState(key[:entry], found[:entry], left[:entry], large[:place])
        after_key, after_large = key[entry:] - middle * num_nodes, large[place:] - entry
        return before, PushState(after_key, found[entry:], left[entry:], after_large)

    def with_keys(self, keys: Tensor) -> PushState:
        """The same with room for `keys`, sorted ascending, too. Nothing is large then."""
        key, found, left, _ = self
        new = keys[~is_among(keys, key)]
        old_place = torch.arange(len(key), device=key.device) + torch.searchsorted(new, key)
        new_place = torch.arange(len(new), device=key.device) + torch.searchsorted(key, new)
        merged = key.new_empty(len(key) + len(new))
        merged[old_place], merged[new_place] = key, new
        both = torch.zeros(2, len(merged), dtype=found.dtype, device=key.device)
        both[0, old_place], both[1, old_place] = found, left
        return PushState(merged, both[0], both[1], new_place[:0])


class TorchPush:
    """Pushes until no residual exceeds `error` times the degree of its node.

    Estimates and residuals of all sources lie in one list, sorted by source and node. A round
    pushes all residuals that are too large; only the nodes it reaches can be too large in the next.
    The mass that reaches a node is summed in the order of the source nodes, so that it does not
    depend on the other entries of the list.
    """

    def __init__(self, links: CSRGraph, alpha: float, error: float) -> None:
        self.links, self.alpha = links, alpha
        self.degree = links.degree
        self.limit = error * self.degree.double()
        self.share = alpha / self.degree.double().clamp_min(1)

    def __call__(self, nodes: Tensor) -> Iterator[tuple[Tensor, SparseRows]]:
        """Some of the `nodes`, in their order, and the estimates of their rows, until all are."""
        key = torch.arange(len(nodes), device=nodes.device) * self.links.num_nodes + nodes
        left = torch.ones_like(key, dtype=torch.float64)
        large = torch.nonzero(left > self.limit[nodes])[:, 0]
        return self._push_on(nodes, PushState(key, torch.zeros_like(left), left, large))

    def _push_on(self, nodes: Tensor, state: PushState) -> Iterator[tuple[Tensor, SparseRows]]:
        """Continue; in halves where it would take too much memory."""
        num_nodes = self.links.num_nodes
        while len(state.large):
            steps = self.degree[state.key[state.large] % num_nodes].sum()
            if len(nodes) > 1 and len(state.key) + int(steps) > max_items(nodes.device):
                middle = len(nodes) // 2
                before, after = state.halves(middle, num_nodes)
                yield from self._push_on(nodes[:middle], before)
                yield from self._push_on(nodes[middle:], after)
                return
            state = self._pushed(state)
        # What is left of G r begins with this.
        total = state.found + (1 - self.alpha) * state.left
        total = torch.where(total > 10 * TOLERANCE, total, 0.0)
        yield nodes, SparseRows.from_keys(state.key, total, len(nodes), num_nodes)

    def _pushed(self, state: PushState) -> PushState:
        """After one round."""
        num_nodes = self.links.num_nodes
        key, flow = state.key[state.large], state.left[state.large]
        state.found[state.large] += (1 - self.alpha) * flow
        state.left[state.large] = 0.0
        node = key % num_nodes
        sender, end = self.links.neighbours(node)
        reached, amount = summed((key - node)[sender] + end, (flow * self.share[node])[sender])
        state = state.with_keys(reached)
        place = torch.searchsorted(state.key, reached)
        residual = state.left[place] + amount
        state.left[place] = residual
        return state._replace(large=place[residual > self.limit[reached % num_nodes]])


def summed(keys: Tensor, amounts: Tensor) -> tuple[Tensor, Tensor]:
    """Different keys, ascending, and the sum of the amounts of each, in the order they come in."""
    if not len(keys):  # `segment_reduce` does not accept nothing
        return keys, amounts
    keys, order = torch.sort(keys, stable=True)
    keys, length = torch.unique_consecutive(keys, return_counts=True)
    # In one column each sum is one thread's; a vector's would be divided by where it lies.
    column = amounts[order][:, None]
    return keys, torch.segment_reduce(column, "sum", lengths=length, unsafe=True)[:, 0]


class ScipyPush:
    """Pushes until no residual exceeds `error` times the degree of its node."""

    def __init__(self, links: sp.csr_array, alpha: float, error: float) -> None:
        self.alpha, self.error = alpha, error
        self.degree = np.diff(links.indptr).astype(np.float64)
        # A residual that stays is multiplied by the upper half, one that is pushed by the lower.
        walk = sp.diags_array(alpha / np.maximum(self.degree, 1)) @ links
        self.stay_or_go = sp.csr_array(sp.vstack([sp.eye_array(len(self.degree)), walk]))

    def __call__(self, nodes: Tensor) -> Iterator[tuple[Tensor, SparseRows]]:
        """Some of the `nodes`, in their order, and the estimates of their rows, until all are."""
        shape = (len(nodes), len(self.degree))
        own = (np.ones(len(nodes)), nodes.numpy(), np.arange(len(nodes) + 1))
        return self._push_on(nodes, sp.csr_array(shape), sp.csr_array(own, shape=shape))

    def _push_on(
        self, nodes: Tensor, found: sp.csr_array, left: sp.csr_array
    ) -> Iterator[tuple[Tensor, SparseRows]]:
        """Continue with estimates and residuals; in halves where they would take much memory."""
        while (large := left.data > self.error * self.degree[left.indices]).any():
            steps = self.degree[left.indices[large]].sum()
            if len(nodes) > 1 and found.nnz + left.nnz + steps > max_items(nodes.device):
                middle = len(nodes) // 2
                for half in (slice(middle), slice(middle, None)):
                    yield from self._push_on(nodes[half], found[half], left[half])
                return
            found = sp.csr_array(found + (1 - self.alpha) * _selected(left, large))
            column = left.indices + len(self.degree) * large
            shape = (len(nodes), 2 * len(self.degree))
            left = sp.csr_array((left.data, column, left.indptr), shape=shape) @ self.stay_or_go
        total = sp.csr_array(found + (1 - self.alpha) * left)
        total.data[total.data <= 10 * TOLERANCE] = 0.0
        total.sort_indices()
        yield nodes, SparseRows.from_scipy(total, nodes.device)


def _selected(matrix: sp.csr_array, entries: np.ndarray) -> sp.csr_array:
    """The `entries`, bool [m], of a matrix."""
    start = np.concatenate([[0], np.cumsum(entries)])[matrix.indptr]
    return sp.csr_array((matrix.data[entries], matrix.indices[entries], start), shape=matrix.shape)
