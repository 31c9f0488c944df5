"""What a step of training reads: anchors, positives and negatives, and links without some."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from xtcl.distributed import world
from xtcl.nn.propagation import EdgeIndex
from xtcl.relations.sparse import CSRGraph


class Batch(NamedTuple):
    """Anchors [n], their positives [n, B] with -1 in empty places, and shared negatives [K]."""

    anchors: Tensor
    positives: Tensor
    negatives: Tensor

    def relabel(self) -> tuple[Tensor, Batch]:
        """The distinct nodes of the batch, and the batch with their places in place of the nodes.

        Distinct nodes have distinct places, so the loss is that of the whole graph.
        Cost: O(n B + K), and sorting as many numbers.
        """
        filled = self.positives >= 0
        sizes = [len(self.anchors), int(filled.sum()), len(self.negatives)]
        named = torch.cat([self.anchors, self.positives[filled], self.negatives])
        nodes, place = torch.unique(named, return_inverse=True)
        anchors, positives, negatives = place.split(sizes)
        table = self.positives.masked_scatter(filled, positives)
        return nodes, Batch(anchors, table, negatives)


class LinkDropout:
    """Leaves out each undirected link with a given probability, both directions together.

    The links that stay keep their order, so that a sparse matrix is made of them without sorting.
    Cost: O(E log E) once, O(E) for each draw.
    """

    def __init__(self, edge_index: Tensor, probability: float) -> None:
        """`edge_index` [2, n] holds both directions of every link."""
        self.edge_index = edge_index
        self.probability = probability

    def draw(self, generator: torch.Generator) -> Tensor:
        """Both directions of the links that stay."""
        if not self.probability:
            return self.edge_index
        return self.edge_index[:, ~self._left_out(generator)]

    def in_place(self, num_nodes: int) -> Callable[[torch.Generator], EdgeIndex]:
        """Draws of the same links, where links that are left out keep their places (`CSRGraph`).

        All draws have the same shape, as a captured step needs it.
        """
        if not self.probability:
            return self.draw
        arcs = CSRGraph.from_edge_index(self.edge_index, num_nodes)
        ordered = LinkDropout(torch.stack([arcs.row, arcs.column]), self.probability)
        return lambda generator: arcs.mask_edges(ordered._left_out(generator))

    @cached_property
    def _links(self) -> tuple[Tensor, int]:
        """The link that each column of `edge_index` is a direction of, and the number of links."""
        low, high = self.edge_index.amin(dim=0), self.edge_index.amax(dim=0)
        size = int(high.max()) + 1 if len(high) else 1
        keys, link = torch.unique(low * size + high, return_inverse=True)
        return link, len(keys)

    def _left_out(self, generator: torch.Generator) -> Tensor:
        link, count = self._links
        uniform = torch.rand(count, generator=generator, device=link.device)
        return (uniform < self.probability)[link]


def local_batch(batch: Batch, weights: Tensor) -> tuple[Batch, Tensor, Tensor | float]:
    """The anchors of this rank, the weights of their positives, and their share of the mean loss.

    All ranks draw the same nodes from the same seed. Each embeds what its own anchors need, and
    adds its part of the loss. The sum of the parts, and of their gradients, is that of the whole
    step to rounding. A full step passes over the whole graph on every rank, so only its loss is
    divided; a step in mini-batches is divided as a whole.
    Cost: one exchange of all gradients a step (`all_reduced_backward`).
    """
    group = world()
    if group.world_size == 1:
        return batch, weights, 1.0
    own = group.shares([len(batch.anchors)])[0]
    has_positive = (weights * (batch.positives >= 0)).sum(dim=1) > 0  # the loss is their mean
    share = has_positive[own].sum() / has_positive.sum().clamp_min(1)
    return Batch(batch.anchors[own], batch.positives[own], batch.negatives), weights[own], share


def all_reduced_backward(encoder: nn.Module, loss: Tensor, share: Tensor | float) -> Tensor:
    """Set the gradients of the whole step from this rank's `share` of it, and return its loss.

    Statistics of the encoder, such as those of batch norm, become the mean of all ranks.
    """
    group = world()
    if group.world_size == 1:
        torch.autograd.backward(loss)
        return loss.detach()
    own = loss * share
    torch.autograd.backward(own)
    gradients = [each.grad for each in encoder.parameters() if each.grad is not None]
    statistics = [each for each in encoder.buffers() if each.is_floating_point()]
    tensors = [own.detach(), *gradients, *(each / group.world_size for each in statistics)]
    total = group.all_reduce(torch.cat([each.reshape(-1) for each in tensors]))
    parts = torch.split(total, [each.numel() for each in tensors])
    for old, new in zip([*gradients, *statistics], parts[1:], strict=True):
        old.copy_(new.view_as(old))
    return total[0]


def local_generator(generator: torch.Generator) -> torch.Generator:
    """The generator of this rank for one step, seeded from the one that all ranks share.

    Ranks need different numbers of draws, so with one generator they would diverge. It is seeded
    anew in every step, so that the dropout of the encoder repeats after an interrupt, too.
    """
    group = world()
    if group.world_size == 1:
        return generator
    own = torch.Generator(generator.device)
    own.set_state(generator.get_state())  # a copy: the shared generator stays as it is
    seed = int(torch.randint(2**31, (1,), generator=own, device=own.device)) + group.rank
    torch.default_generator.manual_seed(seed)
    if generator.device.type == "cuda":
        torch.cuda.manual_seed(seed)
    return own.manual_seed(seed)
