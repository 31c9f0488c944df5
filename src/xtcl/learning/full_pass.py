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

from torch import nn

from xtcl.learning.encoders.gat import GATEncoder
from xtcl.learning.encoders.gcn import GCNEncoder
from xtcl.learning.trainer import TrainingSettings

FLOAT = 4
"""Bytes of a number."""


def full_pass_bytes(
    encoder: nn.Module, num_nodes: int, num_edges: int, settings: TrainingSettings, draws: int
) -> int | None:
    """Bytes of a step of `encoder` (on any device, `meta` too), with `draws` positives an anchor.

    None for a module of the user's own, of which nothing is known.
    """
    if isinstance(encoder, GCNEncoder):
        width, floats = _gcn(encoder, num_nodes)
    elif isinstance(encoder, GATEncoder):
        width, floats = _gat(encoder, num_nodes, num_edges)
    else:
        return None
    anchors = settings.step_anchors(num_nodes)
    return FLOAT * (floats + anchors * (draws * width + 5 * settings.negatives))


def _gcn(encoder: GCNEncoder, num_nodes: int) -> tuple[int, int]:
    width, attributes = encoder.linears[0].get_parameter("weight").shape
    norms = sum(isinstance(part, nn.BatchNorm1d) for part in encoder.modules())
    rows = attributes + (6 + 3 * len(encoder.between) + norms) * width
    return width, num_nodes * max(rows, 9 * attributes // 4)


def _gat(encoder: GATEncoder, num_nodes: int, num_edges: int) -> tuple[int, int]:
    width, attributes = encoder.convs[0].get_parameter("lin.weight").shape
    heads = encoder.convs[0].get_parameter("att_src").shape[1]
    further, arcs = len(encoder.convs) - 1, 2 * num_edges + num_nodes
    rows = num_nodes * (attributes + (2 + 4 * further) * width)
    attention = 5 * heads + 4 + further * (4 * heads + 4)
    return width, rows + arcs * ((4 + further) * width + attention)
