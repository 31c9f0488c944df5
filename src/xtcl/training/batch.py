"""Message passing without some of the links, others in every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from xtcl.distributed import world
from xtcl.nn.propagation import EdgeIndex
from xtcl.relations.sparse import CSRGraph


class LinkDropout:
    """Leaves out each undirected link with a given chance, both directions together.

    What is left keeps its order, so that a sparse matrix is made of it without sorting. Cost O(E
    log E) once, O(E) a draw.
    """

    def __init__(self, edge_index: Tensor, share: float) -> None:
        """`edge_index` [2, n] holds both directions of every link."""
        self.edge_index = edge_index
        self.share = share

    @cached_property
    def _links(self) -> tuple[Tensor, int]:
        """The number of every arc's link, the same for both directions, and how many there are."""
        low, high = self.edge_index.amin(dim=0), self.edge_index.amax(dim=0)
        size = int(high.max()) + 1 if len(high) else 1
        keys, link = torch.unique(low * size + high, return_inverse=True)
        return link, len(keys)

    def draw(self, generator: torch.Generator) -> Tensor:
        """The arcs of the links that stay."""
        if not self.share:
            return self.edge_index
        return self.edge_index[:, ~self._left_out(generator)]

    def in_place(self, num_nodes: int) -> Callable[[torch.Generator], EdgeIndex]:
        """Draws of the same links, whose arcs stay where they are: all have the same shape."""
        if not self.share:
            return self.draw
        arcs = CSRGraph.from_edge_index(self.edge_index, num_nodes)
        ordered = LinkDropout(torch.stack([arcs.row, arcs.column]), self.share)
        return lambda generator: arcs.mask_edges(ordered._left_out(generator))

    def _left_out(self, generator: torch.Generator) -> Tensor:
        link, count = self._links
        chance = torch.rand(count, generator=generator, device=link.device)
        return (chance < self.share)[link]


@dataclass(frozen=True)
class PositiveLists:
    """For every node a list of positives, how many to draw a step (None: all), and their weight."""

    start: Tensor  # int64 [V + 1]
    members: Tensor  # int64 [sum of lengths]
    draws: int | None
    weight: float = 1.0

    @classmethod
    def from_table(cls, table: np.ndarray, draws: int | None, weight: float = 1.0) -> PositiveLists:
        """From a table [V, B] with -1 in empty places."""
        filled = table >= 0
        start = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
        members = table[filled].astype(np.int64)
        return cls(torch.from_numpy(start), torch.from_numpy(members), draws, weight)

    @classmethod
    def from_links(cls, adjacency: sp.csr_array, draws: int, weight: float = 1.0) -> PositiveLists:
        """Every node's neighbours."""
        start, members = (part.astype(np.int64) for part in (adjacency.indptr, adjacency.indices))
        return cls(torch.from_numpy(start), torch.from_numpy(members), draws, weight)

    def to(self, device: torch.device) -> PositiveLists:
        """The same source on `device`."""
        return PositiveLists(
            self.start.to(device), self.members.to(device), self.draws, self.weight
        )

    @cached_property
    def widest(self) -> int:
        """The length of the longest list; asked for once, since a recorded step must not wait."""
        return int(self.start.diff().max())

    def draw(self, nodes: Tensor, generator: torch.Generator) -> Tensor:
        """`draws` members for each of `nodes`, with replacement, -1 for a node without any.

        Without a number to draw, all members, filled up with -1.
        """
        first = self.start[nodes, None]
        length = self.start[nodes + 1, None] - first
        if self.draws is None:
            place = torch.arange(self.widest, device=nodes.device).expand(len(nodes), -1)
        else:
            chance = torch.rand(len(nodes), self.draws, generator=generator, device=nodes.device)
            place = (chance * length).long().minimum((length - 1).clamp_min(0))
        if not len(self.members):
            return torch.full_like(place, -1)
        found = self.members[(first + place).clamp_max(len(self.members) - 1)]
        return found.masked_fill(place >= length, -1)  # a GPU need not wait for that


def draw_positives(
    sources: list[PositiveLists], nodes: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Positives [n, B] of `nodes` from all sources side by side, and their weights [n, B]."""
    drawn = [source.draw(nodes, generator) for source in sources]
    weights = [
        torch.full(found.shape, source.weight, device=nodes.device)
        for source, found in zip(sources, drawn, strict=True)
    ]
    return torch.cat(drawn, dim=1), torch.cat(weights, dim=1)


# A step of training whose anchors the ranks share.
#
# Every rank draws the same nodes from the same seed, embeds what its own anchors need, and adds
# its
# part of the loss. The sum of the parts, and of their gradients, is that of the whole step to
# rounding. Full steps pass over the whole graph on every rank, so only the loss is divided there;
# steps in mini-batches are divided as a whole. Cost: one exchange of all gradients a step.


def local_batch(step: Batch, weights: Tensor) -> tuple[Batch, Tensor, Tensor | float]:
    """The anchors of this rank, the weights of their positives, and their part of the mean loss."""
    everyone = world()
    if everyone.number == 1:
        return step, weights, 1.0
    own = everyone.shares([len(step.anchors)])[0]
    counted = (weights * (step.positives >= 0)).sum(dim=1) > 0  # those the loss is a mean over
    part = counted[own].sum() / counted.sum().clamp_min(1)
    return Batch(step.anchors[own], step.positives[own], step.negatives), weights[own], part


def all_reduced_backward(encoder: nn.Module, value: Tensor, part: Tensor | float) -> Tensor:
    """Set the gradients of the whole step from a rank's part of it, and give its loss.

    Statistics that an encoder keeps, as batch norm does, become the mean of all ranks.
    """
    everyone = world()
    if everyone.number == 1:
        torch.autograd.backward(value)
        return value.detach()
    own = value * part
    torch.autograd.backward(own)
    gradients = [each.grad for each in encoder.parameters() if each.grad is not None]
    kept = [each for each in encoder.buffers() if each.is_floating_point()]
    summed = [own.detach(), *gradients, *(each / everyone.number for each in kept)]
    total = everyone.total(torch.cat([each.reshape(-1) for each in summed]))
    parts = torch.split(total, [each.numel() for each in summed])
    for old, new in zip([*gradients, *kept], parts[1:], strict=True):
        old.copy_(new.view_as(old))
    return total[0]


def local_generator(generator: torch.Generator) -> torch.Generator:
    """Chance of this rank's own for a step, which follows from that of all.

    Ranks need different numbers of draws; with one generator they would drift apart. Seeded anew in
    every step, chance inside the encoder is the same again after an interrupt, too.
    """
    everyone = world()
    if everyone.number == 1:
        return generator
    own = torch.Generator(generator.device)
    own.set_state(generator.get_state())  # a copy: what all draw next stays as it is for one alone
    seed = int(torch.randint(2**31, (1,), generator=own, device=own.device)) + everyone.own
    torch.default_generator.manual_seed(seed)
    if generator.device.type == "cuda":
        torch.cuda.manual_seed(seed)
    return own.manual_seed(seed)


class Batch(NamedTuple):
    """Anchors [n], their positives [n, B] with -1 in empty places, and shared negatives [K]."""

    anchors: Tensor
    positives: Tensor
    negatives: Tensor

    def apart(self) -> tuple[Tensor, Batch]:
        """The different nodes among them, and the same step with their places for the nodes.

        Different nodes have different places, so the loss is the one of the whole graph.
        Cost O(n B + K), and the sorting of as many numbers.
        """
        filled = self.positives >= 0
        sizes = [len(self.anchors), int(filled.sum()), len(self.negatives)]
        named = torch.cat([self.anchors, self.positives[filled], self.negatives])
        nodes, place = torch.unique(named, return_inverse=True)
        anchors, pulled, negatives = place.split(sizes)
        positives = self.positives.masked_scatter(filled, pulled)
        return nodes, Batch(anchors, positives, negatives)
