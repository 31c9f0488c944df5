"""The embedding of all nodes, layer by layer and block by block.

A layer is computed for all nodes, some at a time, before the next one begins, so no node's row is
computed twice: Hamilton, Ying and Leskovec, "Inductive Representation Learning on Large Graphs",
NeurIPS 2017, sample here too; with all neighbours it is the full pass to rounding. Cost as of the
full pass; memory is the output of two layers and what one block needs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from xtcl.errors import UsageError
from xtcl.nn.encoder import LayerwiseEncoder
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.nn.propagation import Block
from xtcl.relations.sparse import CSRGraph
from xtcl.training.batch import Batch, LinkDropout, local_generator


def layer_wise(encoder: nn.Module, x: Tensor, edge_index: Tensor, block: int) -> Tensor:
    """What `encoder(x, edge_index)` gives, from about `block` nodes and links at a time.

    A module of the user's own tells by a number `reach` that a node's embedding depends on nothing
    but the links of nodes fewer than so many links away, as do two layers of attention with a reach
    of 2, and two that divide by degrees with one of 3. Without it, it passes over the whole graph.
    """
    if isinstance(encoder, EncoderEnsemble):
        parts = (layer_wise(member, x, edge_index, block) for member in encoder.members)
        return encoder.join(parts, x, edge_index)
    reach = getattr(encoder, "reach", None)
    if reach is None:
        whole: Tensor = encoder(x, edge_index)
        return whole
    sampler = NeighbourSampler(edge_index, len(x))
    runs = _runs(sampler, block)
    if not isinstance(encoder, LayerwiseEncoder):
        around = ((seeds, *sampler.subgraph(seeds, (None,) * reach)) for seeds in runs)
        rows = (encoder(x[nodes], links)[: len(seeds)] for seeds, nodes, links in around)
        return _stacked(rows, len(x))
    h: Tensor = encoder.smoothed(x, edge_index)
    for number, looks in enumerate(encoder.looks):
        blocks = (sampler.hop(nodes, None if looks else 0) for nodes in runs)
        rows = (encoder.layer(number, h[each.nodes], each) for each in blocks)
        h = _stacked(rows, len(x))
    return h


def _runs(sampler: NeighbourSampler, block: int) -> tuple[Tensor, ...]:
    """All nodes in runs of about `block` nodes and links; a node with more is one of its own."""
    nodes = torch.arange(len(sampler.degree), device=sampler.degree.device)
    before = sampler.start[:-1] + nodes
    _, sizes = torch.unique_consecutive(before // block, return_counts=True)
    return torch.split(nodes, sizes.tolist())


def _stacked(parts: Iterable[Tensor], count: int) -> Tensor:
    """The rows of all parts; `torch.cat` would hold them twice."""
    rows, done = torch.empty(0), 0
    for part in parts:
        if not done:
            rows = part.new_empty(count, *part.shape[1:])
        rows[done : done + len(part)] = part
        done += len(part)
    return rows


# Steps that pass over what their nodes need, for graphs whose full pass does not fit.
#
# Anchors, positives and negatives of a step are the seeds of a sub-graph: their neighbours are
# drawn
# layer by layer (`NeighbourSampler`), attributes are smoothed beforehand for all nodes. The loss
# of
# the seeds' embeddings is the one of the full pass, and equal to it where all neighbours are taken
# and nothing is dropped. Only batch norm sees other nodes: those of the sub-graph.
#
# With s seeds and k neighbours in each of L layers, a step costs at most O(s k^L) rows, in time
# and
# in memory, whatever the size of the graph.


class MiniBatch:
    """Every step embeds its own nodes, over links that stay the same for an epoch.

    A new choice of links takes O(E) and smooths the attributes anew, which is too much for a step.
    """

    def __init__(self, x: Tensor, dropout: LinkDropout, neighbours: Sequence[int | None]) -> None:
        self.x = x
        self.dropout = dropout
        self.neighbours = tuple(neighbours)
        self.links = dropout.edge_index
        self.sampler = NeighbourSampler(self.links, len(x))

    def next_epoch(self, generator: torch.Generator) -> None:
        """An epoch begins."""
        links = self.dropout.draw(generator)
        if links is not self.links:
            self.links, self.sampler = links, NeighbourSampler(links, len(self.x))

    def next_step(self, generator: torch.Generator) -> None:
        """A step begins, before its nodes are drawn."""

    def embed(
        self, encoder: nn.Module, step: Batch, generator: torch.Generator
    ) -> tuple[Tensor, Batch]:
        """Embeddings of the step's nodes, and those nodes as their rows."""
        generator = local_generator(generator)
        seeds, places = step.apart()
        neighbours = self._within_reach(encoder)
        if not isinstance(encoder, LayerwiseEncoder):
            nodes, links = self.sampler.subgraph(seeds, neighbours, generator)
            return encoder(self.x[nodes], links)[: len(seeds)], places
        nearest = iter(neighbours)
        draws = [next(nearest) if looks else 0 for looks in reversed(encoder.looks)]
        blocks = self.sampler.blocks(seeds, draws, generator)[::-1]
        h = encoder.smoothed(self.x, self.links)[blocks[0].nodes]
        for number, block in enumerate(blocks):
            h = encoder.layer(number, h, block)
        return h, places

    def _within_reach(self, encoder: nn.Module) -> tuple[int | None, ...]:
        """The numbers of neighbours that an encoder uses; one of unknown reach uses all."""
        reach = getattr(encoder, "reach", len(self.neighbours))
        if reach > len(self.neighbours):
            raise UsageError(
                f"neighbours={self.neighbours} has {len(self.neighbours)} entries and the encoder "
                f"looks {reach} links far: give a number for each, or None for all neighbours."
            )
        return self.neighbours[:reach]


# Some of the neighbours of some of the nodes, layer by layer.
#
# Hamilton, Ying and Leskovec, "Inductive Representation Learning on Large Graphs", NeurIPS 2017
# (GraphSAGE): a layer of a node's embedding reads at most k neighbours, so that what a pass needs
# is
# bounded by the number of seeds, whatever the size of the graph.
#
# Of d neighbours, k are drawn without replacement by Floyd's algorithm (Bentley and Floyd,
# "Programming Pearls: A Sample of Brilliance", CACM 1987): the j-th draw is uniform among the
# first
# d - k + j + 1, and the last of those where it was drawn before. For n nodes this takes O(n k)
# random numbers and O(n k^2) comparisons, and no pass over their d neighbours, of which a hub has
# many. Memory O(E + V) for the lists, O(n k) for a draw.


class NeighbourSampler:
    """Draws neighbours from the links `edge_index`, which holds both directions of each.

    Lives on the device of the links, and draws from the generator that it is given (torch's own
    without one). On a CPU `pyg_lib` draws where it can be imported; `own` keeps to the code here.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int, *, own: bool = False) -> None:
        arcs = CSRGraph.from_edge_index(edge_index, num_nodes)
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


@cache
def pyg_sample() -> Callable[..., Any] | None:
    """`pyg_lib.sampler.neighbor_sample`, or None where it cannot be imported.

    One that was built for another torch is there, but cannot be loaded: an OSError.
    """
    try:
        sample: Callable[..., Any] = importlib.import_module("pyg_lib.sampler").neighbor_sample
    except (ImportError, OSError):
        return None
    return sample


def pyg_hop(
    sample: Callable[..., Any],
    start: Tensor,
    column: Tensor,
    targets: Tensor,
    most: int,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """At most `most` neighbours of `targets`: nodes, targets first, and links between places.

    pyg_lib draws from torch's own random state, which is seeded from `generator` meanwhile.
    """
    with torch.random.fork_rng([]):
        seed = int(torch.randint(2**31, (), generator=generator))
        torch.default_generator.manual_seed(seed)
        # With csc=True links point to the nodes that drew them; they come in the order of those.
        source, target, nodes = sample(start, column, targets, [most], csc=True)[:3]
    return nodes, torch.stack([source, target])
