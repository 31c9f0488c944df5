"""Bytes that training and embedding take, and the mini-batches where a full pass has no room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from xtcl.learning.batch_settings import BatchSettings
from xtcl.learning.encoders.layered import Layered
from xtcl.learning.encoders.registry import encoder_maker
from xtcl.learning.full_pass import FLOAT, full_pass_bytes
from xtcl.learning.mini_pass import mini_pass_bytes
from xtcl.learning.trainer import TrainingSettings
from xtcl.planning.recorded_bytes import gpu_step_bytes
from xtcl.planning.workload import Workload
from xtcl.tasks.recipe import Member

NEIGHBOURS = (10, 5)
"""Neighbours that a node of a mini-batch draws; the fewer where memory is short."""

FEWEST_ANCHORS = 64
SMALLEST_EMBEDDING_BLOCK = 2**12
EMBEDDING_BLOCK = 256 * 2**20
"""Bytes of a block of the embedding where training is in mini-batches: a larger one is no quicker.
"""


def encoder_of(work: Workload, member: Member) -> nn.Module:
    """The member's encoder, without memory for its weights; a user's own as it is."""
    if isinstance(work.encoder, nn.Module):
        return work.encoder
    with torch.device("meta"):
        return encoder_maker(work.encoder, work.columns, member.encoder)()


def data_bytes(work: Workload, encoder: nn.Module) -> int:
    """Attributes, as given and smoothed, with what smoothing takes; links; weights with Adam's."""
    weights = sum(parameter.numel() for parameter in encoder.parameters())
    rows = 4 * FLOAT * work.nodes * work.columns
    return rows + 96 * work.edges + 16 * work.nodes + 4 * FLOAT * weights


def step_bytes(work: Workload, encoder: nn.Module, settings: TrainingSettings) -> int:
    """A step of training, with its recording on a GPU; 0 for a user's own encoder: nobody knows."""
    passed = full_pass_bytes if settings.batch.neighbours is None else mini_pass_bytes
    needed = passed(encoder, work.nodes, work.edges, settings, work.draws) or 0
    return gpu_step_bytes(work, encoder, settings, needed) if needed and work.on_gpu else needed


def embedding_bytes(work: Workload, encoder: nn.Module, batch: BatchSettings) -> int:
    """The embedding of all nodes by one member, and what computing it takes."""
    width = getattr(encoder, "width", 0)
    layers = len(encoder.looks) if isinstance(encoder, Layered) else 1
    outputs = FLOAT * work.nodes * width * min(layers, 2)
    if batch.neighbours is None:  # the activations between two layers, twice
        return outputs + FLOAT * work.nodes * width * (2 if layers > 1 else 1)
    return outputs + _block_bytes(work, width, batch.block)


def _block_bytes(work: Workload, width: int, block: int) -> int:
    """A block of so many nodes and links: four times what it reads, three times what it gives."""
    given = min(work.nodes, -(-block * work.nodes // (work.nodes + 2 * work.edges)))
    read = min(work.nodes, block)
    return FLOAT * (4 * read * max(width, work.columns) + 3 * given * width)


def settled(work: Workload, encoder: nn.Module, member: Member, room: int) -> Member:
    """The member itself where a full pass fits into `room` bytes, or else in mini-batches that do.

    Where none does, it is the one that takes least. What was chosen by hand stays.
    """
    training = member.training
    needed = step_bytes(work, encoder, training)
    if training.batch.neighbours is not None or not needed or needed <= room:
        return member
    reach = encoder.reach if isinstance(encoder, Layered) else 0
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


def _smaller(nodes: int, training: TrainingSettings, reach: int) -> Iterator[TrainingSettings]:
    """Mini-batches, each smaller than the one before: fewer neighbours, then half the anchors."""
    anchors = min(training.anchors or 4096, nodes)
    while True:
        for most in NEIGHBOURS:
            batch = replace(training.batch, neighbours=(most,) * reach)
            yield replace(training, anchors=anchors, batch=batch)
        if anchors <= FEWEST_ANCHORS:
            return
        anchors //= 2
