"""Bytes that training takes, and the mini-batches that keep it within a budget."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import torch
from torch import nn

from xtcl.config import BatchConfig, EncoderConfig, TrainingConfig
from xtcl.nn import GATEncoder, GCNEncoder, encoder_factory
from xtcl.nn.encoder import LayerwiseEncoder
from xtcl.planning.sizes import Sizes
from xtcl.training.trainer import can_capture

FLOAT = 4
"""Bytes of a number."""

_DRAWN_LINK = 96
"""Bytes of a drawn link: its ends, their places in lists, its weight, and its transpose."""

_LEFT_OUT_LINK = 48
"""Bytes a link of a step with link dropout: for both directions the end that stays, its weight, and
the three parts that is made of."""

_NEIGHBOURS = (10, 5)
"""Neighbours that a node of a mini-batch draws: 5 where memory is short."""

_MIN_ANCHORS = 64

_MIN_EMBEDDING_BLOCK = 2**12

_MAX_BLOCK_BYTES = 256 * 2**20
"""Bytes of a block of the embedding where training is in mini-batches: larger ones are not faster.
"""


def fit_batch(
    sizes: Sizes, encoder: nn.Module, encoder_config: EncoderConfig, room: int
) -> EncoderConfig:
    """`encoder_config` where a full pass fits into `room` bytes, else with mini-batches that fit.

    Where none fits, it gets the smallest ones. Mini-batches that the recipe has already stay.
    """
    training = encoder_config.training
    needed = step_bytes(sizes, encoder, training)
    if training.batch.neighbours is not None or not needed or needed <= room:
        return encoder_config
    num_hops = encoder.num_hops if isinstance(encoder, LayerwiseEncoder) else 0
    for smaller in _smaller(sizes.nodes, training, num_hops):
        training = smaller
        if step_bytes(sizes, encoder, training) <= room:
            break
    block = training.batch.block
    width = getattr(encoder, "width", 0)
    while block > _MIN_EMBEDDING_BLOCK and _block_bytes(sizes, width, block) > _MAX_BLOCK_BYTES:
        block //= 2
    batch = replace(training.batch, block=block)
    return replace(encoder_config, training=replace(training, batch=batch))


def _smaller(nodes: int, training: TrainingConfig, num_hops: int) -> Iterator[TrainingConfig]:
    """Ever smaller mini-batches: fewer neighbours, then half the anchors."""
    anchors = min(training.anchors or 4096, nodes)
    while True:
        for limit in _NEIGHBOURS:
            batch = replace(training.batch, neighbours=(limit,) * num_hops)
            yield replace(training, anchors=anchors, batch=batch)
        if anchors <= _MIN_ANCHORS:
            return
        anchors //= 2


def encoder_of(sizes: Sizes, encoder_config: EncoderConfig) -> nn.Module:
    """The encoder of a configuration, on the `meta` device; a custom module as it is."""
    if isinstance(sizes.encoder, nn.Module):
        return sizes.encoder
    with torch.device("meta"):
        return encoder_factory(sizes.encoder, sizes.columns, encoder_config.encoder)()


def data_bytes(sizes: Sizes, encoder: nn.Module) -> int:
    """Attributes, given and smoothed, and what smoothing takes; links; weights and Adam's state."""
    weights = sum(parameter.numel() for parameter in encoder.parameters())
    rows = 4 * FLOAT * sizes.nodes * sizes.columns
    return rows + 96 * sizes.edges + 16 * sizes.nodes + 4 * FLOAT * weights


def step_bytes(sizes: Sizes, encoder: nn.Module, settings: TrainingConfig) -> int:
    """A step of training, with its capture on a GPU; 0 for a module of the user's own."""
    count = full_pass_bytes if settings.batch.neighbours is None else mini_pass_bytes
    needed = count(encoder, sizes.nodes, sizes.edges, settings, sizes.draws) or 0
    return gpu_step_bytes(sizes, encoder, settings, needed) if needed and sizes.on_gpu else needed


def gpu_step_bytes(sizes: Sizes, encoder: nn.Module, settings: TrainingConfig, needed: int) -> int:
    """Bytes on a GPU of a step that takes `needed` bytes on a CPU.

    The rows of all positives have a gradient at once, where a CPU goes column by column. A captured
    step (`xtcl.cuda_graphs`) has memory of its own, forward and backward, for as long as it is
    replayed. What the steps before the capture took is free, but torch gives nothing back to the
    GPU during a capture.
    """
    width = getattr(encoder, "width", 0)
    plain = needed + FLOAT * settings.anchors_per_step(sizes.nodes) * sizes.draws * width
    if not can_capture(encoder, settings):
        return plain
    captured = plain
    if settings.link_dropout:  # attributes are smoothed over other links in every step
        captured += 2 * FLOAT * sizes.nodes * sizes.columns + _LEFT_OUT_LINK * sizes.edges
    return plain + captured


def embedding_bytes(sizes: Sizes, encoder: nn.Module, batch: BatchConfig) -> int:
    """The embedding of all nodes by one encoder, and what computing it takes."""
    width = getattr(encoder, "width", 0)
    layers = len(encoder.uses_neighbours) if isinstance(encoder, LayerwiseEncoder) else 1
    outputs = FLOAT * sizes.nodes * width * min(layers, 2)
    if batch.neighbours is None:  # the activations between two layers, twice
        return outputs + FLOAT * sizes.nodes * width * (2 if layers > 1 else 1)
    return outputs + _block_bytes(sizes, width, batch.block)


def _block_bytes(sizes: Sizes, width: int, block: int) -> int:
    """A block of so many nodes and links: four times its input, three times its output."""
    given = min(sizes.nodes, -(-block * sizes.nodes // (sizes.nodes + 2 * sizes.edges)))
    read = min(sizes.nodes, block)
    return FLOAT * (4 * read * max(width, sizes.columns) + 3 * given * width)


def full_pass_bytes(
    encoder: nn.Module, num_nodes: int, num_edges: int, settings: TrainingConfig, draws: int
) -> int | None:
    r"""Bytes of a step of `encoder` over the whole graph, with `draws` positives an anchor.

    Counted are the numbers that are in memory at the peak of a step, for V nodes with D attributes,
    a = 2E + V links with the self-loops, width h, l layers, and n anchors with B positives and K
    negatives:

    .. math:: \text{GCN} \quad V \max(D + (6 + 3 (l - 1))\, h,\; 2.25 D)

    one more V h for every batch norm, and with k heads

    .. math:: \text{GAT} \quad V (D + (2 + 4 (l - 1))\, h) + a\, (4 + l - 1)\, h
              + a\, (5 k + 4 + (l - 1) (4 k + 4))

    The loss adds at most :math:`n (B h + 5 K)`. The attributes, their smoothed form and the links
    are not counted: training in mini-batches keeps them too.

    The encoder may be on any device, also `meta`. None for a module of the user's own, of which
    nothing is known.
    """
    if isinstance(encoder, GCNEncoder):
        width, floats = _full_gcn(encoder, num_nodes)
    elif isinstance(encoder, GATEncoder):
        width, floats = _full_gat(encoder, num_nodes, num_edges)
    else:
        return None
    anchors = settings.anchors_per_step(num_nodes)
    return FLOAT * (floats + anchors * (draws * width + 5 * settings.negatives))


def _full_gcn(encoder: GCNEncoder, num_nodes: int) -> tuple[int, int]:
    width, attributes = encoder.linears[0].get_parameter("weight").shape
    norms = sum(isinstance(part, nn.BatchNorm1d) for part in encoder.modules())
    rows = attributes + (6 + 3 * len(encoder.between) + norms) * width
    return width, num_nodes * max(rows, 9 * attributes // 4)


def _full_gat(encoder: GATEncoder, num_nodes: int, num_edges: int) -> tuple[int, int]:
    width, attributes = encoder.convs[0].get_parameter("lin.weight").shape
    heads = encoder.convs[0].get_parameter("att_src").shape[1]
    further, arcs = len(encoder.convs) - 1, 2 * num_edges + num_nodes
    rows = num_nodes * (attributes + (2 + 4 * further) * width)
    attention = 5 * heads + 4 + further * (4 * heads + 4)
    return width, rows + arcs * ((4 + further) * width + attention)


def mini_pass_bytes(
    encoder: nn.Module, num_nodes: int, num_edges: int, settings: TrainingConfig, draws: int
) -> int | None:
    r"""Bytes of a step of `encoder` over a mini-batch, with `draws` positives an anchor.

    A step starts from s seeds, its anchors with their positives and its negatives. From the last
    layer back to the first, a layer that uses neighbours needs those that are drawn, too:
    :math:`n_0 \ge n_1 \ge \dots \ge n_l = s` rows go into layer 0, 1, ... and come out of the
    last. Of m nodes drawn from V about :math:`V (1 - e^{-m / V})` are different. Counted are the
    numbers at the peak, for D attributes, width h and :math:`a_i` links of layer i, self-loops
    among them:

    .. math:: \text{GCN} \quad 2.25\, n_0 D + \sum_{i > 0} 3 (n_i + n_{i+1})\, h + 6 s h

    one more :math:`n_i h` for every batch norm, and with k heads

    .. math:: \text{GAT} \quad n_0 (2 D + 2 h) + a_0 (4 h + 5 k + 4)
              + \sum_{i > 0} \big( 4 n_i h + a_i (h + 4 k + 4) \big)

    The loss is that of `full_pass_bytes`; the drawn links have places in lists. None for a module
    of the user's own.
    """
    if isinstance(encoder, GCNEncoder):
        rows, links = step_rows(encoder, num_nodes, num_edges, settings, draws)
        floats = _mini_gcn(encoder, rows)
    elif isinstance(encoder, GATEncoder):
        rows, links = step_rows(encoder, num_nodes, num_edges, settings, draws)
        floats = _mini_gat(encoder, rows, links)
    else:
        return None
    anchors = settings.anchors_per_step(num_nodes)
    loss = anchors * (draws * encoder.width + 5 * settings.negatives)
    return FLOAT * (floats + loss) + _DRAWN_LINK * sum(links)


def step_rows(
    encoder: LayerwiseEncoder, num_nodes: int, num_edges: int, settings: TrainingConfig, draws: int
) -> tuple[list[int], list[int]]:
    """About how many rows go into each layer and come out of the last; each layer's links."""
    anchors = settings.anchors_per_step(num_nodes)
    rows = [_different(num_nodes, anchors * (1 + draws) + settings.negatives)]
    links: list[int] = []
    nearest = iter(settings.batch.neighbours or ())
    for uses_neighbours in reversed(encoder.uses_neighbours):
        limit = next(nearest) if uses_neighbours else 0
        # Nodes that are drawn as neighbours have more links than others.
        known = min(2 * num_edges, 4 * rows[0] * num_edges // num_nodes)
        drawn = known if limit is None else min(known, rows[0] * limit)
        links.insert(0, drawn)
        rows.insert(0, rows[0] + _different(num_nodes - rows[0], drawn))
    return rows, links


def _different(among: int, drawn: int) -> int:
    """The expected number of different nodes in so many draws."""
    return math.ceil(among * -math.expm1(-drawn / among)) if among else 0


def _mini_gcn(encoder: GCNEncoder, rows: list[int]) -> int:
    attributes = encoder.linears[0].get_parameter("weight").shape[1]
    norms = sum(isinstance(part, nn.BatchNorm1d) for part in encoder.modules())
    each = 4 if norms else 3
    further = sum(each * before + 3 * after for before, after in pairwise(rows[1:]))
    return 9 * rows[0] * attributes // 4 + (further + 6 * rows[-1]) * encoder.width


def _mini_gat(encoder: GATEncoder, rows: list[int], links: list[int]) -> int:
    attributes = encoder.convs[0].get_parameter("lin.weight").shape[1]
    heads, width = encoder.convs[0].get_parameter("att_src").shape[1], encoder.width
    arcs = [drawn + after for drawn, after in zip(links, rows[1:], strict=True)]
    first = rows[0] * 2 * (attributes + width) + arcs[0] * (4 * width + 5 * heads + 4)
    further = zip(rows[1:-1], arcs[1:], strict=True)
    return first + sum(4 * n * width + a * (width + 4 * heads + 4) for n, a in further)
