r"""How much memory a training step over a mini-batch takes.

A step starts from s seeds, its anchors with their positives and its negatives. Going back from the
last layer, one that looks at neighbours needs those it draws, too: :math:`n_0 \ge n_1 \ge \dots
\ge n_l = s` rows go into layer 0, 1, ... and come out of the last. Of m nodes drawn from V about
:math:`V (1 - e^{-m / V})` are different. Counted are the numbers that are there at the peak, for D
attributes, width h and :math:`a_i` links of layer i, each node's own among them:

.. math:: \text{GCN} \quad 2.25\, n_0 D + \sum_{i > 0} 3 (n_i + n_{i+1})\, h + 6 s h

one more :math:`n_i h` for every batch norm, and with k heads

.. math:: \text{GAT} \quad n_0 (2 D + 2 h) + a_0 (4 h + 5 k + 4)
          + \sum_{i > 0} \big( 4 n_i h + a_i (h + 4 k + 4) \big)

The loss is that of the full pass; the drawn links have places in lists.
"""

from __future__ import annotations

import math
from itertools import pairwise

from torch import nn

from xtcl.learning.encoders.gat import GATEncoder
from xtcl.learning.encoders.gcn import GCNEncoder
from xtcl.learning.encoders.layered import Layered
from xtcl.learning.full_pass import FLOAT
from xtcl.learning.trainer import TrainingSettings

LINK = 96
"""Bytes of a drawn link: its ends, their place in lists, its weight, and its way back."""


def mini_pass_bytes(
    encoder: nn.Module, num_nodes: int, num_edges: int, settings: TrainingSettings, draws: int
) -> int | None:
    """Bytes of a step of `encoder` (on any device, `meta` too), with `draws` positives an anchor.

    None for a module of the user's own, of which nothing is known.
    """
    if isinstance(encoder, GCNEncoder):
        rows, links = step_rows(encoder, num_nodes, num_edges, settings, draws)
        floats = _gcn(encoder, rows)
    elif isinstance(encoder, GATEncoder):
        rows, links = step_rows(encoder, num_nodes, num_edges, settings, draws)
        floats = _gat(encoder, rows, links)
    else:
        return None
    anchors = settings.step_anchors(num_nodes)
    loss = anchors * (draws * encoder.width + 5 * settings.negatives)
    return FLOAT * (floats + loss) + LINK * sum(links)


def step_rows(
    encoder: Layered, num_nodes: int, num_edges: int, settings: TrainingSettings, draws: int
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


def _gcn(encoder: GCNEncoder, rows: list[int]) -> int:
    attributes = encoder.linears[0].get_parameter("weight").shape[1]
    norms = sum(isinstance(part, nn.BatchNorm1d) for part in encoder.modules())
    each = 4 if norms else 3
    further = sum(each * before + 3 * after for before, after in pairwise(rows[1:]))
    return 9 * rows[0] * attributes // 4 + (further + 6 * rows[-1]) * encoder.width


def _gat(encoder: GATEncoder, rows: list[int], links: list[int]) -> int:
    attributes = encoder.convs[0].get_parameter("lin.weight").shape[1]
    heads, width = encoder.convs[0].get_parameter("att_src").shape[1], encoder.width
    arcs = [drawn + after for drawn, after in zip(links, rows[1:], strict=True)]
    first = rows[0] * 2 * (attributes + width) + arcs[0] * (4 * width + 5 * heads + 4)
    further = zip(rows[1:-1], arcs[1:], strict=True)
    return first + sum(4 * n * width + a * (width + 4 * heads + 4) for n, a in further)
