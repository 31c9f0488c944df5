"""Some of the neighbours of some of the nodes, layer by layer.

Hamilton, Ying and Leskovec, "Inductive Representation Learning on Large Graphs", NeurIPS 2017
(GraphSAGE): a layer of a node's embedding reads at most k neighbours, so that what a pass needs is
bounded by the number of seeds, whatever the size of the graph.

Of d neighbours, k are drawn without replacement by Floyd's algorithm (Bentley and Floyd,
"Programming Pearls: A Sample of Brilliance", CACM 1987): the j-th draw is uniform among the first
d - k + j + 1, and the last of those where it was drawn before. For n nodes this takes O(n k)
random numbers and O(n k^2) comparisons, and no pass over their d neighbours, of which a hub has
many. Memory O(E + V) for the lists, O(n k) for a draw.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xtcl.learning.arcs import Arcs
from xtcl.learning.block import Block
from xtcl.learning.pyg_hop import pyg_hop, pyg_sample


class NeighbourSampler:
    """Draws neighbours from the links `edge_index`, which holds both directions of each.

    Lives on the device of the links, and draws from the generator that it is given (torch's own
    without one). On a CPU `pyg_lib` draws where it can be imported; `own` keeps to the code here.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, *, own: bool = False) -> None:
        arcs = Arcs.of(edge_index, num_nodes)
        self.start, self.column, self.degree = arcs.start, arcs.column, arcs.degree
        self._pyg = pyg_sample() if self.start.is_cpu and not own else None
        self._place = torch.full_like(self.degree, -1)

    def blocks(
        self,
        seeds: Tensor,
        neighbours: Sequence[int | None],
        generator: torch.Generator | None = None,
    ) -> list[Block]:
        """One block a layer for the different nodes `seeds`, the layer next to them first.

        The sources of a block are the targets of the next; `neighbours` is how many each of them
        draws (None: all).
        """
        blocks: list[Block] = []
        for most in neighbours:
            blocks.append(self.hop(seeds, most, generator))
            seeds = blocks[-1].nodes
        return blocks

    def subgraph(
        self,
        seeds: Tensor,
        neighbours: Sequence[int | None],
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The nodes that all layers need, `seeds` first, and the drawn links among their places.

        Every link is there once in both directions, also where only one of its ends has drawn it.
        """
        blocks = self.blocks(seeds, neighbours, generator)
        if not blocks:
            return seeds, self.start.new_empty(2, 0)
        # Sources keep the places of the targets, so places are the same in all blocks.
        drawn = torch.cat([block.edge_index for block in blocks], dim=1)
        return blocks[-1].nodes, torch.unique(torch.cat([drawn, drawn.flip(0)], dim=1), dim=1)

    def hop(
        self, targets: Tensor, most: int | None, generator: torch.Generator | None = None
    ) -> Block:
        """At most `most` neighbours of each of the different nodes `targets` (None: all)."""
        if self._pyg is not None and most:
            lists = self.start, self.column
            nodes, edge_index = pyg_hop(self._pyg, *lists, targets, most, generator)
        else:
            nodes, edge_index = self._own_hop(targets, most, generator)
        return Block(nodes, len(targets), edge_index, self.degree[nodes])

    def _own_hop(
        self, targets: Tensor, most: int | None, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        degree = self.degree[targets]
        if most is None or not (degree > most).any():
            target = torch.arange(len(targets), device=targets.device).repeat_interleave(degree)
            first = (self.start[targets] - degree.cumsum(0) + degree)[target]
            found = self.column[first + torch.arange(len(target), device=targets.device)]
        else:
            place = _draw(degree, most, generator)
            target, _ = there = (place < degree[:, None]).nonzero(as_tuple=True)
            found = self.column[self.start[targets][target] + place[there]]
        self._place[targets] = torch.arange(len(targets), device=targets.device)
        new = torch.unique(found[self._place[found] < 0])
        nodes = torch.cat([targets, new])
        self._place[new] = torch.arange(len(targets), len(nodes), device=targets.device)
        edge_index = torch.stack([self._place[found], target])
        self._place[nodes] = -1
        return nodes, edge_index


def _draw(degree: Tensor, most: int, generator: torch.Generator | None) -> Tensor:
    """`most` different places below `degree` for each node; where they are fewer, 0, 1, 2, ..."""
    place = torch.arange(most, device=degree.device).repeat(len(degree), 1)
    (many,) = (degree > most).nonzero(as_tuple=True)
    size, double = (len(many), most), torch.float64
    chance = torch.rand(size, generator=generator, dtype=double, device=degree.device)
    drawn = place[many]
    for j in range(most):
        last = degree[many] - most + j
        new = (chance[:, j] * (last + 1)).long().minimum(last)
        again = (drawn[:, :j] == new[:, None]).any(dim=1)
        drawn[:, j] = torch.where(again, last, new)
    place[many] = drawn
    return place
