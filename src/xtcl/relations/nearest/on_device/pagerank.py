r"""PageRank by forward push, from all sources of a part together; `nearest.pagerank` has the proof.

Estimates and residuals of all sources lie in one list, sorted by source and node. A round pushes
all residuals that are too large; only what it reaches can be too large in the next. What comes to a
node is added up in the order of those who send it, whatever else is in the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from xtcl.relations.nearest.cut import Cut
from xtcl.relations.nearest.dense import of_whole_rows
from xtcl.relations.nearest.on_device import parts
from xtcl.relations.nearest.on_device.links import Links
from xtcl.relations.nearest.on_device.lists import Lists, best_of_lists
from xtcl.relations.nearest.pagerank import push_error
from xtcl.relations.nearest.rows import Nearest, NearestRows
from xtcl.relations.pagerank import TOLERANCE, PageRank
from xtcl.relations.sparse import is_among
from xtcl.relations.view import TrainingView

SOURCES = 2**13
"""How many are pushed together to begin with."""


class State(NamedTuple):
    """What was reached so far, by source and node: keys are source * V + node and rise."""

    key: Tensor  # int64 [m]
    found: Tensor  # float64 [m], the estimate p
    left: Tensor  # float64 [m], the residual r
    large: Tensor  # int64, the places of residuals to push, rising

    def halves(self, middle: int, num_nodes: int) -> tuple[State, State]:
        """The sources before `middle`, and the others."""
        entry = int(torch.searchsorted(self.key, middle * num_nodes))
        place = int(torch.searchsorted(self.large, entry))
        key, found, left, large = self
        before = State(key[:entry], found[:entry], left[:entry], large[:place])
        after_key, after_large = key[entry:] - middle * num_nodes, large[place:] - entry
        return before, State(after_key, found[entry:], left[entry:], after_large)

    def with_keys(self, keys: Tensor) -> State:
        """The same with room for `keys`, which rise, too. Nothing is large then."""
        key, found, left, _ = self
        new = keys[~is_among(keys, key)]
        old_place = torch.arange(len(key), device=key.device) + torch.searchsorted(new, key)
        new_place = torch.arange(len(new), device=key.device) + torch.searchsorted(key, new)
        merged = key.new_empty(len(key) + len(new))
        merged[old_place], merged[new_place] = key, new
        both = torch.zeros(2, len(merged), dtype=found.dtype, device=key.device)
        both[0, old_place], both[1, old_place] = found, left
        return State(merged, both[0], both[1], new_place[:0])


class Push:
    """Pushes until no residual exceeds `error` times the degree of its node."""

    def __init__(self, links: Links, alpha: float, error: float) -> None:
        self.links, self.alpha = links, alpha
        self.degree = links.degree
        self.limit = error * self.degree.double()
        self.share = alpha / self.degree.double().clamp_min(1)

    def __call__(self, nodes: Tensor) -> Iterator[tuple[Tensor, Lists]]:
        """Some of the `nodes`, in their order, and the estimates of their rows, until all are."""
        key = torch.arange(len(nodes), device=nodes.device) * self.links.num_nodes + nodes
        left = torch.ones_like(key, dtype=torch.float64)
        large = torch.nonzero(left > self.limit[nodes])[:, 0]
        return self._go_on(nodes, State(key, torch.zeros_like(left), left, large))

    def _go_on(self, nodes: Tensor, state: State) -> Iterator[tuple[Tensor, Lists]]:
        """Push from here on; in halves where it would take too much memory."""
        num_nodes = self.links.num_nodes
        while len(state.large):
            steps = self.degree[state.key[state.large] % num_nodes].sum()
            if len(nodes) > 1 and len(state.key) + int(steps) > parts.MAX_PATHS:
                middle = len(nodes) // 2
                before, after = state.halves(middle, num_nodes)
                yield from self._go_on(nodes[:middle], before)
                yield from self._go_on(nodes[middle:], after)
                return
            state = self._pushed(state)
        # What is left of G r begins with this.
        total = state.found + (1 - self.alpha) * state.left
        total = torch.where(total > 10 * TOLERANCE, total, 0.0)
        yield nodes, Lists(state.key, total, (len(nodes), num_nodes))

    def _pushed(self, state: State) -> State:
        """After one round."""
        num_nodes = self.links.num_nodes
        key, flow = state.key[state.large], state.left[state.large]
        state.found[state.large] += (1 - self.alpha) * flow
        state.left[state.large] = 0.0
        node = key % num_nodes
        sender, end = self.links.steps(node)
        reached, amount = summed((key - node)[sender] + end, (flow * self.share[node])[sender])
        state = state.with_keys(reached)
        place = torch.searchsorted(state.key, reached)
        residual = state.left[place] + amount
        state.left[place] = residual
        return state._replace(large=place[residual > self.limit[reached % num_nodes]])


def summed(keys: Tensor, amounts: Tensor) -> tuple[Tensor, Tensor]:
    """Different keys, rising, and the sum of the amounts of each, in the order they come in."""
    if not len(keys):  # `segment_reduce` is not made for nothing
        return keys, amounts
    keys, order = torch.sort(keys, stable=True)
    keys, length = torch.unique_consecutive(keys, return_counts=True)
    # In one column each sum is one thread's; a vector's would be shared out by where it lies.
    column = amounts[order][:, None]
    return keys, torch.segment_reduce(column, "sum", lengths=length, unsafe=True)[:, 0]


def nearest_by_pagerank(relation: PageRank, view: TrainingView, cut: Cut) -> Nearest:
    """Within `push_error`, and exact where the cap exceeds the quantile's rank."""
    if cut.full:
        return of_whole_rows(relation.on(view), cut)
    push = Push(Links.among(view), relation.alpha, push_error(view, cut.cap))

    def find(nodes: Tensor) -> NearestRows:
        return NearestRows.joined(
            [
                best_of_lists(found, sources, cut)
                for some in torch.split(nodes.to(view.device), SOURCES)
                for sources, found in push(some)
            ]
        )

    return find
