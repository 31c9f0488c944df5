r"""How much memory a training step over the whole graph takes.

Counted are the numbers that are there at once at the peak of a step, for V nodes with D attributes,
a = 2E + V arcs with the loops, width h, l layers, and n anchors with B positives and K negatives:

.. math:: \text{GCN} \quad V \max(D + (6 + 3 (l - 1))\, h,\; 2.25 D)

one more V h for every batch norm, and

.. math:: \text{GAT} \quad V (D + (2 + 4 (l - 1))\, h) + a\, (4 + l - 1)\, h
          + a\, (5 k + 4 + (l - 1) (4 k + 4))

for k heads; the loss adds at most :math:`n (B h + 5 K)`. The attributes, their smoothed form and
the links are not counted: training in mini-batches keeps them too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import torch
from torch import nn

from xtcl.config import BatchConfig, EncoderConfig, TrainingConfig
from xtcl.nn import encoder_maker
from xtcl.nn.encoder import LayerwiseEncoder
from xtcl.nn.ensemble import ROWS
from xtcl.nn.gat import GATEncoder
from xtcl.nn.gcn import GCNEncoder
from xtcl.planning.sizes import LINKS, Sizes
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.row_source import TOPK_BLOCK_ROWS
from xtcl.tasks.logistic_solver import BLOCK, COLUMNS, FEW
from xtcl.tasks.self_training import MAX_ROWS
from xtcl.training.trainer import can_capture

FLOAT = 4
"""Bytes of a number."""


def full_pass_bytes(
    encoder: nn.Module, num_nodes: int, num_edges: int, settings: TrainingConfig, draws: int
) -> int | None:
    """Bytes of a step of `encoder` (on any device, `meta` too), with `draws` positives an anchor.

    None for a module of the user's own, of which nothing is known.
    """
    if isinstance(encoder, GCNEncoder):
        width, floats = _full_gcn(encoder, num_nodes)
    elif isinstance(encoder, GATEncoder):
        width, floats = _full_gat(encoder, num_nodes, num_edges)
    else:
        return None
    anchors = settings.step_anchors(num_nodes)
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


# How much memory a training step over a mini-batch takes.
#
# A step starts from s seeds, its anchors with their positives and its negatives. Going back from
# the
# last layer, one that looks at neighbours needs those it draws, too: :math:`n_0 \ge n_1 \ge \dots
# \ge n_l = s` rows go into layer 0, 1, ... and come out of the last. Of m nodes drawn from V about
# :math:`V (1 - e^{-m / V})` are different. Counted are the numbers that are there at the peak, for
# D
# attributes, width h and :math:`a_i` links of layer i, each node's own among them:
#
# .. math:: \text{GCN} \quad 2.25\, n_0 D + \sum_{i > 0} 3 (n_i + n_{i+1})\, h + 6 s h
#
# one more :math:`n_i h` for every batch norm, and with k heads
#
# .. math:: \text{GAT} \quad n_0 (2 D + 2 h) + a_0 (4 h + 5 k + 4)
#           + \sum_{i > 0} \big( 4 n_i h + a_i (h + 4 k + 4) \big)
#
# The loss is that of the full pass; the drawn links have places in lists.


LINK = 96
"""Bytes of a drawn link: its ends, their place in lists, its weight, and its way back."""


def mini_pass_bytes(
    encoder: nn.Module, num_nodes: int, num_edges: int, settings: TrainingConfig, draws: int
) -> int | None:
    """Bytes of a step of `encoder` (on any device, `meta` too), with `draws` positives an anchor.

    None for a module of the user's own, of which nothing is known.
    """
    if isinstance(encoder, GCNEncoder):
        rows, links = step_rows(encoder, num_nodes, num_edges, settings, draws)
        floats = _mini_gcn(encoder, rows)
    elif isinstance(encoder, GATEncoder):
        rows, links = step_rows(encoder, num_nodes, num_edges, settings, draws)
        floats = _mini_gat(encoder, rows, links)
    else:
        return None
    anchors = settings.step_anchors(num_nodes)
    loss = anchors * (draws * encoder.width + 5 * settings.negatives)
    return FLOAT * (floats + loss) + LINK * sum(links)


def step_rows(
    encoder: LayerwiseEncoder, num_nodes: int, num_edges: int, settings: TrainingConfig, draws: int
) -> tuple[list[int], list[int]]:
    """About how many rows go into each layer and come out of the last; each layer's links."""
    anchors = settings.step_anchors(num_nodes)
    rows = [_different(num_nodes, anchors * (1 + draws) + settings.negatives)]
    links: list[int] = []
    nearest = iter(settings.batch.neighbours or ())
    for looks in reversed(encoder.looks):
        most = next(nearest) if looks else 0
        # Those who are drawn have more links than others.
        known = min(2 * num_edges, 4 * rows[0] * num_edges // num_nodes)
        drawn = known if most is None else min(known, rows[0] * most)
        links.insert(0, drawn)
        rows.insert(0, rows[0] + _different(num_nodes - rows[0], drawn))
    return rows, links


def _different(among: int, drawn: int) -> int:
    """How many different nodes so many draws give."""
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


NUMBER = 4 + 8 + 4
"""Bytes for a number of a head's rows: as it comes, turned in double precision, and rounded."""


SPANNED = 32
"""The same where the span of the rows is found, or their features come in double precision."""


SLACK = 1.05
"""What was seen at the peak of a head, beside the sum of its arrays: 3 % more at 100,000 nodes."""


MOST_PAIRS = 20_000
"""Pairs that a scorer of links is fitted on (`fit_link_head`)."""


def joining_bytes(work: Sizes) -> int:
    """The members' embeddings and the joined one, and a block of rows between them."""
    members = sum_of_widths(work)
    return 4 * work.nodes * (members + work.width) + 8 * min(work.nodes, ROWS) * members


def sum_of_widths(work: Sizes) -> int:
    """Columns of all members of the widest plan, without the attributes that stand beside them."""
    return max(replaced.width(0) for replaced in work.recipe.plans)


def head_bytes(work: Sizes) -> int:
    """What the embedding and its head take at the most."""
    return round(SLACK * _arrays(work))


def _arrays(work: Sizes) -> int:
    """The most of two moments: with an embedding in doubt beside, and fitting again."""
    embedding = 4 * work.nodes * work.width
    if work.task == LINKS:
        return embedding + SPANNED * min(MOST_PAIRS, 4 * work.edges) * work.width
    answers = 8 * 3 * work.nodes * work.classes
    embeddings = 2 if work.recipe.doubt < 1 else 1
    more = min(MAX_ROWS, work.nodes - work.labelled) if work.recipe.sure < 1 else 0
    first = embeddings * embedding + _fit_bytes(work, work.labelled)
    return answers + max(first, embedding + _fit_bytes(work, work.labelled + more))


def _fit_bytes(work: Sizes, rows: int) -> int:
    """The rows of a fit, some of them turned or squared, and arrays of its five folds."""
    if rows <= FEW:
        return SPANNED * rows * work.width
    turned = 3 * 8 * min(BLOCK, rows * work.width)
    squared = 8 * rows * min(COLUMNS, work.width)
    folds = 8 * 6 * 5 * rows * work.classes
    return NUMBER * rows * work.width + max(turned, squared) + folds


# Bytes that the host of a GPU holds beside it.
#
# Relations, training and heads work on the GPU. The host keeps the graph, the pairs that labels
# are
# spread over, the tables of positives, and at the end the embedding for whoever asks.


WITH_CUDA = round(2.2 * 2**30)
"""What Python, torch and PyG take with the libraries of CUDA, once all are loaded: no less than
two fits beside an H200, of 50,000 and a million nodes, leave when all else is taken off."""


def graph_bytes(work: Sizes) -> int:
    """The graph, with the copy that is trained on."""
    return work.stored + 128 * work.edges + 64 * work.nodes


def host_peaks(work: Sizes) -> tuple[int, int, int, int, int]:
    """The peaks of relations, positives, training, embedding and head."""
    start = WITH_CUDA + graph_bytes(work) + label_pairs_bytes(work)
    found = start + found_bytes(work)
    attributes = 4 * work.nodes * work.columns  # on their way to the GPU
    answers = 8 * 3 * work.nodes * work.classes
    return (
        start + max(attributes, label_pairs_bytes(work)),
        found,
        found + max(attributes, 32 * work.edges),
        found,
        found + 4 * work.nodes * work.width + answers,
    )


LEFT_OUT = 48
"""Bytes a link of a step that leaves links out: of both directions the end that stays, its weight,
and the three parts that is made of."""


def gpu_step_bytes(work: Sizes, encoder: nn.Module, settings: TrainingConfig, needed: int) -> int:
    """The same step as one of a CPU that takes `needed` bytes.

    The rows of all positives have a gradient at once, where a CPU goes column by column. A recorded
    step has memory of its own, forth and back, for as long as it is replayed. What the steps by
    hand before it had is free, but stays with the allocator: it gives nothing back to the GPU while
    it records.
    """
    width = getattr(encoder, "width", 0)
    by_hand = needed + FLOAT * settings.step_anchors(work.nodes) * work.draws * width
    if not can_capture(encoder, settings):
        return by_hand
    recorded = by_hand
    if settings.link_dropout:  # attributes are smoothed in every step, over other links
        recorded += 2 * FLOAT * work.nodes * work.columns + LEFT_OUT * work.edges
    return by_hand + recorded


# Bytes that relations take: what they keep, what making it takes, and a row of a block.
#
# In exact mode they keep the attributes as a dense matrix, the factors of two relations and the
# links
# in the form each sparse relation wants; for labels, the pairs above with a labelled node. In
# top-k
# mode the factors are there once more in groups of equal rows, for the relation that breaks ties,
# and
# in an index where there is one; and the attribute label distribution keeps a list of every node.


PAIR_BYTES = 56
"""Bytes a pair of the current block costs at the peak: its similarity, a copy to sort, the level,
the score, and two double-precision sort keys of the tie-break with their intermediates."""


LISTED_BYTES = 160
"""The same for a pair that top-k mode lists: its keys and digits before and after they are merged,
and the columns its score, tie-break and node are put into."""


RELATIONS = 9
"""Lists of a node in top-k mode, each as long as the cap."""


LINK_FORMS = 120
"""Bytes a link: five relations have it in both directions, each as a place and a number."""


EXPLORATION, GPU_EXPLORATION = 300 * 2**20, 2 * 2**30
"""What searches of sparse graphs list at a time in top-k mode (`MAX_ITEMS` of `relations.topk`)."""


ABOVE_PAIR, LISTED_PAIR = 3, 4
"""Bytes of a pair in the relation store: where a row has few, its nodes lie further apart."""


SMALLEST_BLOCK = 64
"""Rows that most relations are computed in on a CPU, however few they are asked for."""


def kept_bytes(work: Sizes) -> int:
    """What relations hold from their first row to the end of the fit."""
    shared = 4 * work.nodes * work.attributes + LINK_FORMS * work.edges + 40 * work.nodes
    if work.cap is None:
        return shared + 2 * work.factors + label_pairs_bytes(work)
    indexed = work.recipe.sampler.index_past
    copies = 5 if indexed is None or work.nodes <= indexed else 9
    return shared + copies * work.factors + label_pairs_bytes(work)


def preparing_bytes(work: Sizes) -> int:
    """What making that takes for a moment, beside what is kept."""
    making = 2 * work.factors + label_pairs_bytes(work)
    if work.cap is None:
        return making
    on_gpu = torch.device(work.device).type != "cpu"
    return making + (GPU_EXPLORATION if on_gpu else EXPLORATION)


def label_pairs_bytes(work: Sizes) -> int:
    """Pairs that spread labels: a similarity and the place of a node each."""
    if not work.labelled:
        return 0
    if work.cap is not None:
        return 12 * work.nodes * work.cap
    return int(12 * (1 - max(work.recipe.sampler.quantiles)) * work.nodes * work.labelled)


def row_bytes(work: Sizes) -> int:
    """What one row of a block takes."""
    if work.cap is None:
        return PAIR_BYTES * work.nodes
    return LISTED_BYTES * min(RELATIONS * work.cap, work.nodes)


def usual_rows(work: Sizes) -> int:
    """Rows of a block where memory is not short: more would make nothing quicker."""
    return rows_per_block(work.nodes, work.device) if work.cap is None else TOPK_BLOCK_ROWS


def smallest_rows(work: Sizes) -> int:
    """Rows of the smallest block that is worth the while."""
    return min(SMALLEST_BLOCK, usual_rows(work))


def found_bytes(work: Sizes) -> int:
    """The tables of positives, for a moment twice."""
    return 24 * work.nodes * work.recipe.positives


def store_bytes(work: Sizes) -> int:
    """What a relation store gets, about: the above pairs of all rows, and the positives."""
    if not work.store:
        return 0
    rows = work.rounds * work.nodes + work.queries
    above = (1 - min(work.recipe.sampler.quantiles)) * work.nodes
    relations = RELATIONS - (2 if work.task == LINKS else 0)
    positives = LISTED_PAIR * work.rounds * work.nodes * work.recipe.positives
    if work.cap is None:
        return int(ABOVE_PAIR * relations * rows * above) + positives
    return int(LISTED_PAIR * relations * rows * min(above, work.cap)) + positives


NEIGHBOURS = (10, 5)
"""Neighbours that a node of a mini-batch draws; the fewer where memory is short."""


FEWEST_ANCHORS = 64


SMALLEST_EMBEDDING_BLOCK = 2**12


EMBEDDING_BLOCK = 256 * 2**20
"""Bytes of a block of the embedding where training is in mini-batches: a larger one is no quicker.
"""


def encoder_of(work: Sizes, member: EncoderConfig) -> nn.Module:
    """The member's encoder, without memory for its weights; a user's own as it is."""
    if isinstance(work.encoder, nn.Module):
        return work.encoder
    with torch.device("meta"):
        return encoder_maker(work.encoder, work.columns, member.encoder)()


def data_bytes(work: Sizes, encoder: nn.Module) -> int:
    """Attributes, as given and smoothed, with what smoothing takes; links; weights with Adam's."""
    weights = sum(parameter.numel() for parameter in encoder.parameters())
    rows = 4 * FLOAT * work.nodes * work.columns
    return rows + 96 * work.edges + 16 * work.nodes + 4 * FLOAT * weights


def step_bytes(work: Sizes, encoder: nn.Module, settings: TrainingConfig) -> int:
    """A step of training, with its recording on a GPU; 0 for a user's own encoder: nobody knows."""
    passed = full_pass_bytes if settings.batch.neighbours is None else mini_pass_bytes
    needed = passed(encoder, work.nodes, work.edges, settings, work.draws) or 0
    return gpu_step_bytes(work, encoder, settings, needed) if needed and work.on_gpu else needed


def embedding_bytes(work: Sizes, encoder: nn.Module, batch: BatchConfig) -> int:
    """The embedding of all nodes by one member, and what computing it takes."""
    width = getattr(encoder, "width", 0)
    layers = len(encoder.looks) if isinstance(encoder, LayerwiseEncoder) else 1
    outputs = FLOAT * work.nodes * width * min(layers, 2)
    if batch.neighbours is None:  # the activations between two layers, twice
        return outputs + FLOAT * work.nodes * width * (2 if layers > 1 else 1)
    return outputs + _block_bytes(work, width, batch.block)


def _block_bytes(work: Sizes, width: int, block: int) -> int:
    """A block of so many nodes and links: four times what it reads, three times what it gives."""
    given = min(work.nodes, -(-block * work.nodes // (work.nodes + 2 * work.edges)))
    read = min(work.nodes, block)
    return FLOAT * (4 * read * max(width, work.columns) + 3 * given * width)


def fit_batch(work: Sizes, encoder: nn.Module, member: EncoderConfig, room: int) -> EncoderConfig:
    """The member itself where a full pass fits into `room` bytes, or else in mini-batches that do.

    Where none does, it is the one that takes least. What was chosen by hand stays.
    """
    training = member.training
    needed = step_bytes(work, encoder, training)
    if training.batch.neighbours is not None or not needed or needed <= room:
        return member
    reach = encoder.reach if isinstance(encoder, LayerwiseEncoder) else 0
    for smaller in _smaller(work.nodes, training, reach):
        training = smaller
        if step_bytes(work, encoder, training) <= room:
            break
    block = training.batch.block
    width = getattr(encoder, "width", 0)
    while block > SMALLEST_EMBEDDING_BLOCK and _block_bytes(work, width, block) > EMBEDDING_BLOCK:
        block //= 2
    batch = replace(training.batch, block=block)
    return replace(member, training=replace(training, batch=batch))


def _smaller(nodes: int, training: TrainingConfig, reach: int) -> Iterator[TrainingConfig]:
    """Mini-batches, each smaller than the one before: fewer neighbours, then half the anchors."""
    anchors = min(training.anchors or 4096, nodes)
    while True:
        for most in NEIGHBOURS:
            batch = replace(training.batch, neighbours=(most,) * reach)
            yield replace(training, anchors=anchors, batch=batch)
        if anchors <= FEWEST_ANCHORS:
            return
        anchors //= 2
