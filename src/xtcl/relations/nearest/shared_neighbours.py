"""Similarities of single pairs that follow from their degrees and the neighbours they share.

Of two nodes the one with fewer neighbours is gone through, and each of them looked up among the
links of the other. So a pair has the similarity of the exact row, however far down in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from xtcl.relations.common_neighbours import neighbourhood
from xtcl.relations.jaccard import Jaccard
from xtcl.relations.link import Link
from xtcl.relations.nearest.on_device.links import Links
from xtcl.relations.nearest.on_device.parts import parts
from xtcl.relations.sparse import is_among, ranges
from xtcl.relations.topology import Topology, mutual_information
from xtcl.relations.view import TrainingView

AT_ONCE = 2**22
"""Neighbours to look up at once, but for those of a single pair: some 200 MB."""

Similarity = Callable[[Tensor, Tensor], Tensor]
"""Takes nodes u and v, each [m], gives s(u, v), float32 [m]."""


class SharedNeighbours:
    """How many neighbours pairs share.

    Cost: the smaller degree of each, times log E, and O(E) memory.
    """

    @classmethod
    def among(cls, view: TrainingView) -> SharedNeighbours:
        """Those of a view, once for all relations."""
        return view.once("shared neighbours", lambda: cls(Links.among(view)))

    def __init__(self, links: Links) -> None:
        self.degree = links.degree
        self._links = links
        source = torch.repeat_interleave(
            torch.arange(links.num_nodes, device=links.end.device), self.degree
        )
        self._keys = source * links.num_nodes + links.end

    def linked(self, u: Tensor, v: Tensor) -> Tensor:
        """Which pairs are links: bool [m]."""
        return is_among(u * self._links.num_nodes + v, self._keys)

    def __call__(self, u: Tensor, v: Tensor) -> Tensor:
        """How many neighbours each pair shares: int64 [m]."""
        first = self.degree[u] <= self.degree[v]
        few, many = torch.where(first, u, v), torch.where(first, v, u)
        pairs = torch.arange(len(u), device=u.device)
        together = parts(pairs, self.degree[few], AT_ONCE)
        return torch.cat([self._shared(few[part], many[part]) for part in together])

    def _shared(self, few: Tensor, many: Tensor) -> Tensor:
        pair, entry = ranges(self._links.start[few], self.degree[few])
        held = self.linked(many[pair], self._links.end[entry])
        return torch.zeros_like(few).index_add_(0, pair, held.long())


def by_link(relation: Link, view: TrainingView) -> Similarity:
    """Entries of the normalised adjacency."""
    shared = SharedNeighbours.among(view)
    scale = 1.0 / torch.sqrt(shared.degree.double() + 1.0)

    def of(u: Tensor, v: Tensor) -> Tensor:
        return torch.where(shared.linked(u, v), scale[u] * scale[v], 0.0).float()

    return of


def by_jaccard(relation: Jaccard, view: TrainingView) -> Similarity:
    """Common neighbours over the product of degrees."""
    shared = SharedNeighbours.among(view)
    if relation.hops > 1:
        near = neighbourhood(view.adjacency, relation.hops)
        shared = SharedNeighbours(Links.of(near, view.device))
    size = shared.degree.clamp_min(1).float()

    def of(u: Tensor, v: Tensor) -> Tensor:
        return shared(u, v) / (size[v] * size[u])

    return of


def by_topology(relation: Topology, view: TrainingView) -> Similarity:
    """Mutual information."""
    shared = SharedNeighbours.among(view)
    degree = shared.degree.double()

    def of(u: Tensor, v: Tensor) -> Tensor:
        both = shared(u, v).double()
        return mutual_information(degree[u], degree[v], both, view.num_nodes).float()

    return of


BY_PAIR: dict[type, Callable[[Any, TrainingView], Similarity]] = {
    Link: by_link,
    Jaccard: by_jaccard,
    Topology: by_topology,
}
"""The relations that need no more of a pair."""
