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
from xtcl.nn.functional import clear_tensor_caches
from xtcl.nn.gcn import GCNEncoder
from xtcl.nn.loss import Loss, contrastive_loss
from xtcl.nn.propagation import EdgeIndex
from xtcl.training.batch import (
    Batch,
    LinkDropout,
    PositiveLists,
    all_reduced_backward,
    draw_positives,
    local_batch,
)
from xtcl.training.checkpoint import NullCheckpoints, TrainingState
from xtcl.training.early_stopping import EarlyStopping
from xtcl.training.neighbor_sampling import MiniBatch, layer_wise

CHECKPOINT_EVERY = 10


@dataclass(frozen=True)
class TrainingResult:
    """What training gave: the embedding of every node and the loss of every epoch."""

    embedding: Tensor
    losses: tuple[float, ...]


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[torch.Generator]:
    """Seed torch for what is inside (dropout, initial weights) and leave its state as it was."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU too
        for gpu in devices:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield torch.Generator(device).manual_seed(seed)


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
    watch: EarlyStopping | None = None,
    loss: Loss | None = None,
) -> tuple[nn.Module, TrainingResult]:
    """Train an encoder so that every node comes close to its positives.

    `make_encoder` is called under the seed, so that initial weights repeat too. Everything runs on
    the device of `x`. Given the same seed, a run on the CPU repeats to the byte, also when it was
    interrupted and goes on from `checkpoints`. With a `watch`, the embedding is the best it saw,
    while the encoder is the latest; what it saw before an interrupt is not kept. `loss` stands in
    for Equation 1, and is a mean over anchors as that is. Ranks share the anchors of a step.
    """
    settings.validated()
    checkpoints = checkpoints or NullCheckpoints()
    device = x.device
    sources = [source.to(device) for source in sources]
    dropout = LinkDropout(edge_index, settings.link_dropout)
    losses: list[float] = []
    on_gpu = device.type == "cuda"
    apart = side_stream(device) if on_gpu else nullcontext()
    with apart, seeded(seed, device) as generator, allow_tf32():
        encoder = make_encoder().to(device)
        alone = loss is None and world().number == 1
        repeats = on_gpu and alone and can_capture(encoder, settings)
        passes: FullBatch | MiniBatch
        if settings.batch.neighbours is None:
            passes = FullBatch(x, dropout, same_shapes=repeats)
        else:
            passes = MiniBatch(x, dropout, settings.batch.neighbours)
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
            passes.next_step(generator)
            positives, weights = draw_positives(sources, anchors, generator)
            negatives = torch.randint(
                len(x), (settings.negatives,), generator=generator, device=device
            )
            drawn, weights, part = local_batch(Batch(anchors, positives, negatives), weights)
            z, rows = passes.embed(encoder, drawn, generator)
            value = (loss or contrastive_loss)(
                z,
                rows.positives,
                rows.negatives,
                anchors=rows.anchors,
                weights=weights,
                similarity=settings.similarity,
                temperature=settings.temperature,
            )
            optimiser.zero_grad()
            value = all_reduced_backward(encoder, value, part)
            optimiser.step()
            return value

        take = GraphedStep(step, generator) if repeats else step
        while len(losses) < settings.epochs:
            passes.next_epoch(generator)
            steps = [take(anchors) for anchors in _shares(len(x), settings, generator)]
            losses.append(torch.stack(steps).mean().item())
            _check_finite(losses[-1], f"The loss became {losses[-1]}", len(losses), settings)
            on_epoch(len(losses), losses[-1])
            if len(losses) % CHECKPOINT_EVERY == 0:
                checkpoints.save("training", state.to_tensors())
            if watch is not None and watch.seen_enough(
                len(losses), lambda: embed(encoder, x, edge_index, settings.batch)
            ):
                break
        found = None if watch is None else watch.embedding
        embedding = embed(encoder, x, edge_index, settings.batch) if found is None else found
        clear_tensor_caches(encoder)  # the data are no part of the model
        largest = embedding.abs().max().item()
        _check_finite(largest, "The embedding overflowed", len(losses), settings)
    return encoder, TrainingResult(embedding, tuple(losses))


def can_capture(encoder: nn.Module, settings: TrainingConfig) -> bool:
    """Whether every step launches the same work, whatever was drawn."""
    whole = settings.batch.neighbours is None
    # Nobody knows what a subclass does with its links.
    return whole and type(encoder) is GCNEncoder


def _shares(
    num_nodes: int, settings: TrainingConfig, generator: torch.Generator
) -> Iterator[Tensor]:
    """The anchors of an epoch, dealt out at random to its steps."""
    steps, drawn = settings.steps_per_epoch(num_nodes), settings.anchors_per_epoch(num_nodes)
    if steps == 1 and drawn == num_nodes:
        yield torch.arange(num_nodes, device=generator.device)
    else:
        order = torch.randperm(num_nodes, generator=generator, device=generator.device)
        # chunk may give fewer than it is asked for
        yield from order[:drawn].tensor_split(steps)


def embed(
    encoder: nn.Module, x: Tensor, edge_index: Tensor, batch: BatchConfig | None = None
) -> Tensor:
    """Embeddings of all nodes, without dropout; layer by layer where `batch` is not the graph."""
    encoder.eval()
    with torch.no_grad():
        if batch is not None and batch.neighbours is not None:
            return layer_wise(encoder, x, edge_index, batch.block)
        embedding: Tensor = encoder(x, edge_index)
    return embedding


def _check_finite(value: float, what: str, epoch: int, settings: TrainingConfig) -> None:
    if not math.isfinite(value):
        raise DataError(
            f"{what} in epoch {epoch}. Lower learning_rate ({settings.learning_rate}) or raise "
            f"temperature ({settings.temperature})."
        )


class FullBatch:
    """Every step embeds all nodes over links of its own, as `LinkDropout` leaves them.

    With `same_shapes`, links that are left out keep their places.
    """

    def __init__(self, x: Tensor, dropout: LinkDropout, *, same_shapes: bool = False) -> None:
        self.x = x
        self.draw = dropout.in_place(len(x)) if same_shapes else dropout.draw
        self.links: EdgeIndex = dropout.edge_index

    def next_epoch(self, generator: torch.Generator) -> None:
        """An epoch begins."""

    def next_step(self, generator: torch.Generator) -> None:
        """A step begins, before its nodes are drawn."""
        self.links = self.draw(generator)

    def embed(
        self, encoder: nn.Module, step: Batch, generator: torch.Generator
    ) -> tuple[Tensor, Batch]:
        """Embeddings, and the nodes of the step as their rows."""
        return encoder(self.x, self.links), step
