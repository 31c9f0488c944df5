"""The embedding of all nodes, layer by layer and block by block.

A layer is computed for all nodes, some at a time, before the next one begins, so no node's row is
computed twice: Hamilton, Ying and Leskovec, "Inductive Representation Learning on Large Graphs",
NeurIPS 2017, sample here too; with all neighbours it is the full pass to rounding. Cost as of the
full pass; memory is the output of two layers and what one block needs.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from xtcl.learning.encoders.joined import Joined
from xtcl.learning.encoders.layered import Layered
from xtcl.learning.neighbour_sampler import NeighbourSampler


def layer_wise(encoder: nn.Module, x: Tensor, edge_index: Tensor, block: int) -> Tensor:
    """What `encoder(x, edge_index)` gives, from about `block` nodes and links at a time.

    A module of the user's own tells by a number `reach` that a node's embedding depends on nothing
    but the links of nodes fewer than so many links away, as do two layers of attention with a reach
    of 2, and two that divide by degrees with one of 3. Without it, it passes over the whole graph.
    """
    if isinstance(encoder, Joined):
        parts = (layer_wise(member, x, edge_index, block) for member in encoder.members)
        return encoder.join(parts, x, edge_index)
    reach = getattr(encoder, "reach", None)
    if reach is None:
        whole: Tensor = encoder(x, edge_index)
        return whole
    sampler = NeighbourSampler(edge_index, len(x))
    runs = _runs(sampler, block)
    if not isinstance(encoder, Layered):
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
