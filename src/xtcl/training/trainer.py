"""The training loop: seeded, interruptible."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from xtcl.config import BatchConfig, TrainingConfig
from xtcl.cuda_graphs import GraphedStep, side_stream
from xtcl.device import allow_tf32
from xtcl.distributed import world
from xtcl.errors import DataError
from xtcl.nn.encoder import LayerwiseEncoder
from xtcl.nn.functional import clear_tensor_caches
from xtcl.nn.loss import Loss, unchecked_loss
from xtcl.nn.propagation import EdgeIndex
from xtcl.sampling.positives import PositiveLists, draw_positives
from xtcl.training.batch import Batch, LinkDropout, all_reduced_backward, local_batch
from xtcl.training.checkpoint import NullCheckpoints, TrainingState
from xtcl.training.early_stopping import EarlyStopping
from xtcl.training.neighbor_sampling import MiniBatch, layer_wise

CHECKPOINT_EVERY = 10
"""Epochs between two checkpoints."""


@dataclass(frozen=True)
class TrainingResult:
    """The embedding of every node, and the loss of every epoch."""

    embedding: Tensor
    losses: tuple[float, ...]


def train(
    make_encoder: Callable[[], nn.Module],
    x: Tensor,
    edge_index: Tensor,
    sources: list[PositiveLists],
    settings: TrainingConfig,
    *,
    seed: int = 0,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
    checkpoints: NullCheckpoints | None = None,
    early_stopping: EarlyStopping | None = None,
    loss: Loss | None = None,
) -> tuple[nn.Module, TrainingResult]:
    """Train an encoder so that every node comes close to its positives.

    Everything runs on the device of `x`, and the ranks of `xtcl.distributed` share the anchors of
    each step. With the same seed a run on the CPU repeats to the byte, also when it was interrupted
    and goes on from `checkpoints`.

    Args:
        make_encoder: makes the encoder; called under the seed, so that initial weights repeat too.
        x: attributes [V, D].
        edge_index: links in both directions, int64 [2, n].
        sources: lists that positives are drawn from.
        settings: epochs, anchors, negatives, learning rate, ...
        seed: of weights, draws and dropout.
        on_epoch: called with the epoch and its loss.
        checkpoints: where to save and resume; nothing is saved without it.
        early_stopping: ends the training early. The embedding is then its best one, while the
            encoder is the latest. Its scores are not part of a checkpoint.
        loss: a mean over anchors in place of Equation 1.

    """
    settings.validated()
    checkpoints = checkpoints or NullCheckpoints()
    device = x.device
    sources = [source.to(device) for source in sources]
    dropout = LinkDropout(edge_index, settings.link_dropout)
    losses: list[float] = []
    on_gpu = device.type == "cuda"
    stream = side_stream(device) if on_gpu else nullcontext()
    with stream, seeded(seed, device) as generator, allow_tf32():
        encoder = make_encoder().to(device)
        is_plain = loss is None and world().world_size == 1
        captured = on_gpu and is_plain and can_capture(encoder, settings)
        batches: FullBatch | MiniBatch
        if settings.batch.neighbours is None:
            batches = FullBatch(x, dropout, same_shapes=captured)
        else:
            batches = MiniBatch(x, dropout, settings.batch.neighbours)
        optimiser = torch.optim.Adam(
            encoder.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            fused=on_gpu,
            capturable=on_gpu,
        )
        state = TrainingState(encoder, optimiser, generator, losses)
        saved = checkpoints.load("training")
        if saved is not None:
            state.restore(saved)
            on_epoch(len(losses), losses[-1])

        def step(anchors: Tensor) -> Tensor:
            encoder.train()
            batches.next_step(generator)
            positives, weights = draw_positives(sources, anchors, generator)
            negatives = torch.randint(
                len(x), (settings.negatives,), generator=generator, device=device
            )
            batch, weights, share = local_batch(Batch(anchors, positives, negatives), weights)
            z, rows = batches.embed(encoder, batch, generator)
            value = (loss or unchecked_loss)(
                z,
                rows.positives,
                rows.negatives,
                anchors=rows.anchors,
                weights=weights,
                similarity=settings.similarity,
                temperature=settings.temperature,
            )
            optimiser.zero_grad()
            value = all_reduced_backward(encoder, value, share)
            optimiser.step()
            return value

        run_step = GraphedStep(step, generator) if captured else step
        while len(losses) < settings.epochs:
            batches.next_epoch(generator)
            values = [run_step(anchors) for anchors in _epoch_anchors(len(x), settings, generator)]
            losses.append(torch.stack(values).mean().item())
            _check_finite(losses[-1], f"The loss became {losses[-1]}", len(losses), settings)
            on_epoch(len(losses), losses[-1])
            if len(losses) % CHECKPOINT_EVERY == 0:
                checkpoints.save("training", state.to_tensors())
            if early_stopping is not None and early_stopping.should_stop(
                len(losses), lambda: embed(encoder, x, edge_index, settings.batch)
            ):
                break
        best = None if early_stopping is None else early_stopping.embedding
        embedding = embed(encoder, x, edge_index, settings.batch) if best is None else best
        clear_tensor_caches(encoder)  # the data are no part of the model
        largest = embedding.abs().max().item()
        _check_finite(largest, "The embedding overflowed", len(losses), settings)
    return encoder, TrainingResult(embedding, tuple(losses))


def embed(
    encoder: nn.Module, x: Tensor, edge_index: Tensor, batch: BatchConfig | None = None
) -> Tensor:
    """Embeddings of all nodes, without dropout; layer by layer where `batch` has neighbours."""
    encoder.eval()
    with torch.no_grad():
        if batch is not None and batch.neighbours is not None:
            return layer_wise(encoder, x, edge_index, batch.block)
        embedding: Tensor = encoder(x, edge_index)
    return embedding


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[torch.Generator]:
    """Seed torch for the block (dropout, initial weights), and restore its state afterwards."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU too
        for gpu in devices:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield torch.Generator(device).manual_seed(seed)


def can_capture(encoder: nn.Module, settings: TrainingConfig) -> bool:
    """Whether every step launches the same kernels, whatever was drawn (`xtcl.cuda_graphs`)."""
    is_full = settings.batch.neighbours is None
    # What a base class declares is not true of every subclass.
    declared = isinstance(encoder, LayerwiseEncoder) and vars(type(encoder)).get("same_kernels")
    return is_full and declared is True


class FullBatch:
    """Every step embeds all nodes, over the links that `LinkDropout` keeps in that step.

    With `same_shapes`, links that are left out keep their places.
    """

    def __init__(self, x: Tensor, dropout: LinkDropout, *, same_shapes: bool = False) -> None:
        self.x = x
        self.draw = dropout.in_place(len(x)) if same_shapes else dropout.draw
        self.links: EdgeIndex = dropout.edge_index

    def next_epoch(self, generator: torch.Generator) -> None:
        """Prepare an epoch."""

    def next_step(self, generator: torch.Generator) -> None:
        """Prepare a step, before its nodes are drawn."""
        self.links = self.draw(generator)

    def embed(
        self, encoder: nn.Module, batch: Batch, generator: torch.Generator
    ) -> tuple[Tensor, Batch]:
        """Embeddings of all nodes, and the batch, whose nodes are their rows."""
        return encoder(self.x, self.links), batch


def _epoch_anchors(
    num_nodes: int, settings: TrainingConfig, generator: torch.Generator
) -> Iterator[Tensor]:
    """The anchors of each step of an epoch, assigned at random."""
    steps, drawn = settings.steps_per_epoch(num_nodes), settings.anchors_per_epoch(num_nodes)
    if steps == 1 and drawn == num_nodes:
        yield torch.arange(num_nodes, device=generator.device)
    else:
        order = torch.randperm(num_nodes, generator=generator, device=generator.device)
        # chunk may give fewer parts than its argument
        yield from order[:drawn].tensor_split(steps)


def _check_finite(value: float, what: str, epoch: int, settings: TrainingConfig) -> None:
    if not math.isfinite(value):
        raise DataError(
            f"{what} in epoch {epoch}. Lower learning_rate ({settings.learning_rate}) or raise "
            f"temperature ({settings.temperature})."
        )
