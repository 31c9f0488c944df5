"""Mini-batches for graphs whose full pass does not fit into memory (GraphSAGE).

Hamilton, Ying and Leskovec, "Inductive Representation Learning on Large Graphs", NeurIPS 2017: a
layer reads at most k neighbours of each node, so that what a pass needs is bounded by the number of
seeds, whatever the size of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from xtcl.errors import UsageError
from xtcl.nn.encoder import LayerwiseEncoder
from xtcl.nn.ensemble import EncoderEnsemble
from xtcl.nn.propagation import Block
from xtcl.relations.sparse import CSRGraph
from xtcl.renamed import warn_renamed
from xtcl.training.batch import Batch, LinkDropout, local_generator


class MiniBatch:
    """Every step embeds its own nodes, over links that stay the same for an epoch.

    Anchors, positives and negatives of a step are the seeds of a subgraph: their neighbours are
    drawn layer by layer (`NeighbourSampler`). Attributes are smoothed beforehand for all nodes. The
    loss is equal to that of the full pass where all neighbours are taken and nothing is dropped,
    but for batch norm, which sees the nodes of the subgraph only.

    Drawing other links takes O(E) and smooths the attributes again, too long for every step.
    Cost: with s seeds and k neighbours in each of L layers at most O(s k^L) rows a step, in time
    and in memory.
    """

    def __init__(self, x: Tensor, dropout: LinkDropout, neighbours: Sequence[int | None]) -> None:
        self.x = x
        self.dropout = dropout
        self.neighbours = tuple(neighbours)
        self.links = dropout.edge_index
        self.sampler = NeighbourSampler(self.links, len(x))

    def next_epoch(self, generator: torch.Generator) -> None:
        """Prepare an epoch."""
        links = self.dropout.draw(generator)
        if links is not self.links:
            self.links, self.sampler = links, NeighbourSampler(links, len(self.x))

    def next_step(self, generator: torch.Generator) -> None:
        """Prepare a step, before its nodes are drawn."""

    def embed(
        self, encoder: nn.Module, batch: Batch, generator: torch.Generator
    ) -> tuple[Tensor, Batch]:
        """Embeddings of the nodes of the batch, and the batch with those rows for its nodes."""
        generator = local_generator(generator)
        seeds, rows = batch.relabel()
        neighbours = self._neighbours_for(encoder)
        if not isinstance(encoder, LayerwiseEncoder):
            nodes, links = self.sampler.subgraph(seeds, neighbours, generator)
            return encoder(self.x[nodes], links)[: len(seeds)], rows
        nearest = iter(neighbours)
        sizes = [next(nearest) if uses else 0 for uses in reversed(encoder.uses_neighbours)]
        blocks = self.sampler.blocks(seeds, sizes, generator)[::-1]
        h = encoder.smoothed_x(self.x, self.links)[blocks[0].nodes]
        for number, block in enumerate(blocks):
            h = encoder.layer(number, h, block)
        return h, rows

    def _neighbours_for(self, encoder: nn.Module) -> tuple[int | None, ...]:
        """How many neighbours each hop draws; an encoder without `num_hops` uses all entries."""
        given = len(self.neighbours)
        num_hops = num_hops_of(encoder)
        if num_hops is None:
            return self.neighbours
        if num_hops > given:
            raise UsageError(
                f"neighbours={self.neighbours} has {given} entries and the encoder looks "
                f"{num_hops} links far: give a number for each, or None for all neighbours."
            )
        return self.neighbours[:num_hops]


def layer_wise(encoder: nn.Module, x: Tensor, edge_index: Tensor, block: int) -> Tensor:
    """`encoder(x, edge_index)`, computed from about `block` nodes and links at a time.

    Each layer is computed for all nodes, block by block, before the next begins, so that no row is
    computed twice. With all neighbours the result is that of the full pass to rounding.

    A module of the user's own has a number `num_hops` if a node's embedding depends on nothing but
    the links of nodes fewer than so many links away. It is 2 for two layers of attention, and 3 for
    two layers that divide by degrees. Without it the module passes over the whole graph.
    Cost: as of the full pass; memory for the output of two layers and for one block.
    """
    if isinstance(encoder, EncoderEnsemble):
        over = zip(encoder.members, encoder.links_of_members(edge_index), strict=True)
        parts = (layer_wise(member, x, links, block) for member, links in over)
        return encoder.join(parts, x, edge_index)
    num_hops = num_hops_of(encoder)
    if num_hops is None:
        whole: Tensor = encoder(x, edge_index)
        return whole
    sampler = NeighbourSampler(edge_index, len(x))
    runs = _runs(sampler, block)
    if not isinstance(encoder, LayerwiseEncoder):
        around = ((seeds, *sampler.subgraph(seeds, (None,) * num_hops)) for seeds in runs)
        rows = (encoder(x[nodes], links)[: len(seeds)] for seeds, nodes, links in around)
        return _concatenate(rows, len(x))
    h: Tensor = encoder.smoothed_x(x, edge_index)
    for number, uses_neighbours in enumerate(encoder.uses_neighbours):
        blocks = (sampler.hop(nodes, None if uses_neighbours else 0) for nodes in runs)
        rows = (encoder.layer(number, h[each.nodes], each) for each in blocks)
        h = _concatenate(rows, len(x))
    return h


def num_hops_of(encoder: nn.Module) -> int | None:
    """How many links far an encoder looks; None where it does not tell."""
    num_hops: int | None = getattr(encoder, "num_hops", None)
    if num_hops is None and hasattr(encoder, "reach"):
        warn_renamed("An encoder's `reach`", "`num_hops`")
        num_hops = encoder.reach  # type: ignore[assignment]
    return num_hops


def _runs(sampler: NeighbourSampler, block: int) -> tuple[Tensor, ...]:
    """All nodes in runs of about `block` nodes and links; a node with more has a run of its own."""
    nodes = torch.arange(len(sampler.degree), device=sampler.degree.device)
    before = sampler.start[:-1] + nodes
    _, sizes = torch.unique_consecutive(before // block, return_counts=True)
    return torch.split(nodes, sizes.tolist())


def _concatenate(parts: Iterable[Tensor], count: int) -> Tensor:
    """The rows of all parts; `torch.cat` would hold them twice."""
    rows, done = torch.empty(0), 0
    for part in parts:
        if not done:
            rows = part.new_empty(count, *part.shape[1:])
        rows[done : done + len(part)] = part
        done += len(part)
    return rows


class NeighbourSampler:
    """Draws neighbours from the links `edge_index`, which holds both directions of each.

    Of d neighbours, k are drawn without replacement by Floyd's algorithm (Bentley and Floyd,
    "Programming Pearls: A Sample of Brilliance", CACM 1987): draw j is uniform among the first
    d - k + j + 1, and the last of those where it was drawn before.

    It lives on the device of the links, and draws from the generator that it is given (torch's own
    without one).
    Cost: O(E + V) memory for the lists; for n nodes O(n k) random numbers and memory and O(n k^2)
    comparisons. The d neighbours themselves, of which a hub has many, are not read.
    """

    def __init__(self, edge_index: Tensor, num_nodes: int) -> None:
        arcs = CSRGraph.from_edge_index(edge_index, num_nodes)
        self.start, self.column, self.degree = arcs.start, arcs.column, arcs.degree
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
        for max_neighbours in neighbours:
            blocks.append(self.hop(seeds, max_neighbours, generator))
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
        self, targets: Tensor, max_neighbours: int | None, generator: torch.Generator | None = None
    ) -> Block:
        """At most `max_neighbours` of each of the different nodes `targets` (None: all)."""
        degree = self.degree[targets]
        if max_neighbours is None or not (degree > max_neighbours).any():
            target = torch.arange(len(targets), device=targets.device).repeat_interleave(degree)
            first = (self.start[targets] - degree.cumsum(0) + degree)[target]
            drawn = self.column[first + torch.arange(len(target), device=targets.device)]
        else:
            place = _draw_places(degree, max_neighbours, generator)
            target, _ = filled = (place < degree[:, None]).nonzero(as_tuple=True)
            drawn = self.column[self.start[targets][target] + place[filled]]
        self._place[targets] = torch.arange(len(targets), device=targets.device)
        new = torch.unique(drawn[self._place[drawn] < 0])
        nodes = torch.cat([targets, new])
        self._place[new] = torch.arange(len(targets), len(nodes), device=targets.device)
        edge_index = torch.stack([self._place[drawn], target])
        self._place[nodes] = -1
        return Block(nodes, len(targets), edge_index, self.degree[nodes])


def _draw_places(degree: Tensor, number: int, generator: torch.Generator | None) -> Tensor:
    """`number` different places below `degree` for each node; where they are fewer, 0, 1, 2, ..."""
    place = torch.arange(number, device=degree.device).repeat(len(degree), 1)
    (many,) = (degree > number).nonzero(as_tuple=True)
    size, double = (len(many), number), torch.float64
    uniform = torch.rand(size, generator=generator, dtype=double, device=degree.device)
    drawn = place[many]
    for j in range(number):
        last = degree[many] - number + j
        new = (uniform[:, j] * (last + 1)).long().minimum(last)
        again = (drawn[:, :j] == new[:, None]).any(dim=1)
        drawn[:, j] = torch.where(again, last, new)
    place[many] = drawn
    return place
