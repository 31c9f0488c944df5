"""The training loop: seeded, interruptible."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from xtcl.errors import DataError, UsageError
from xtcl.learning.batch_settings import BatchSettings
from xtcl.learning.checkpoint import NoCheckpoints, TrainingState
from xtcl.learning.encoders.gcn import GCNEncoder
from xtcl.learning.encoders.remembered import forget
from xtcl.learning.full_batch import FullBatch
from xtcl.learning.layer_wise import layer_wise
from xtcl.learning.link_dropout import LinkDropout
from xtcl.learning.loss import Loss, Similarity, contrastive_loss
from xtcl.learning.mini_batch import MiniBatch
from xtcl.learning.positive_source import PositiveSource, draw_positives
from xtcl.learning.repeated_step import RepeatedStep
from xtcl.learning.rough_products import rough_products
from xtcl.learning.shared_step import own_part, shared_backward
from xtcl.learning.step_nodes import StepNodes
from xtcl.learning.watch import Watch
from xtcl.ranks import ranks
from xtcl.recorded import own_stream

CHECKPOINT_EVERY = 10


@dataclass(frozen=True)
class TrainingSettings:
    """How an encoder is trained.

    In an epoch every node is an anchor once, in steps of about `anchors` nodes (None: one step), so
    that larger graphs take more steps; of more than `epoch_anchors` nodes (None: any number) so
    many are drawn for each epoch, and no more steps are taken. `negatives` random nodes are drawn
    each step and shared by its anchors. `link_dropout` is the share of links left out of message
    passing in a step; they stay positives. `batch` says how much of the graph a step passes over.
    """

    epochs: int = 12
    anchors: int | None = 4096
    epoch_anchors: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    negatives: int = 512
    similarity: Similarity = "cosine"
    temperature: float = 0.5
    link_dropout: float = 0.0
    batch: BatchSettings = field(default_factory=BatchSettings)

    def checked(self) -> TrainingSettings:
        """These settings, or an error that names the one that cannot be used."""
        counts = {"epochs": self.epochs, "negatives": self.negatives}
        for name in ("anchors", "epoch_anchors"):
            if getattr(self, name) is not None:
                counts[name] = getattr(self, name)
        for name, value in counts.items():
            if not value >= 1:
                raise UsageError(f"{name}={value} must be at least 1.")
        for name in ("learning_rate", "temperature"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)} must be above 0.")
        if not self.weight_decay >= 0:
            raise UsageError(f"weight_decay={self.weight_decay} must not be below 0.")
        if not 0 <= self.link_dropout < 1:
            raise UsageError(f"link_dropout={self.link_dropout} must be in [0, 1).")
        if self.similarity not in ("cosine", "inner"):
            raise UsageError(f"similarity='{self.similarity}' must be 'cosine' or 'inner'.")
        self.batch.checked()
        return self

    def drawn(self, num_nodes: int) -> int:
        """Anchors of an epoch on a graph of this size."""
        return num_nodes if self.epoch_anchors is None else min(num_nodes, self.epoch_anchors)

    def steps(self, num_nodes: int) -> int:
        """Steps of an epoch on a graph of this size."""
        return 1 if self.anchors is None else max(1, round(self.drawn(num_nodes) / self.anchors))

    def step_anchors(self, num_nodes: int) -> int:
        """Anchors of a step, at most, on a graph of this size."""
        return -(-self.drawn(num_nodes) // self.steps(num_nodes))

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> TrainingSettings:
        """The settings whose `dataclasses.asdict` went through JSON or TOML."""
        batch = BatchSettings.from_plain(stored.get("batch", {}))
        # TOML has no word for None: what is missing is None.
        return cls(**{"anchors": None, "epoch_anchors": None, **stored, "batch": batch})


@dataclass(frozen=True)
class Trained:
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
    sources: list[PositiveSource],
    settings: TrainingSettings,
    *,
    seed: int = 0,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
    checkpoints: NoCheckpoints | None = None,
    watch: Watch | None = None,
    loss: Loss | None = None,
) -> tuple[nn.Module, Trained]:
    """Train an encoder so that every node comes close to its positives.

    `make_encoder` is called under the seed, so that initial weights repeat too. Everything runs on
    the device of `x`. Given the same seed, a run on the CPU repeats to the byte, also when it was
    interrupted and goes on from `checkpoints`. With a `watch`, the embedding is the best it saw,
    while the encoder is the latest; what it saw before an interrupt is not kept. `loss` stands in
    for Equation 1, and is a mean over anchors as that is. Ranks share the anchors of a step.
    """
    settings.checked()
    checkpoints = checkpoints or NoCheckpoints()
    device = x.device
    sources = [source.to(device) for source in sources]
    dropout = LinkDropout(edge_index, settings.link_dropout)
    losses: list[float] = []
    on_gpu = device.type == "cuda"
    apart = own_stream(device) if on_gpu else nullcontext()
    with apart, seeded(seed, device) as generator, rough_products():
        encoder = make_encoder().to(device)
        alone = loss is None and ranks().number == 1
        repeats = on_gpu and alone and always_alike(encoder, settings)
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
            drawn, weights, part = own_part(StepNodes(anchors, positives, negatives), weights)
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
            value = shared_backward(encoder, value, part)
            optimiser.step()
            return value

        take = RepeatedStep(step, generator) if repeats else step
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
        forget(encoder)  # the data are no part of the model
        largest = embedding.abs().max().item()
        _check_finite(largest, "The embedding overflowed", len(losses), settings)
    return encoder, Trained(embedding, tuple(losses))


def always_alike(encoder: nn.Module, settings: TrainingSettings) -> bool:
    """Whether every step launches the same work, whatever was drawn."""
    whole = settings.batch.neighbours is None
    # Nobody knows what a subclass does with its links.
    return whole and type(encoder) is GCNEncoder


def _shares(
    num_nodes: int, settings: TrainingSettings, generator: torch.Generator
) -> Iterator[Tensor]:
    """The anchors of an epoch, dealt out at random to its steps."""
    steps, drawn = settings.steps(num_nodes), settings.drawn(num_nodes)
    if steps == 1 and drawn == num_nodes:
        yield torch.arange(num_nodes, device=generator.device)
    else:
        order = torch.randperm(num_nodes, generator=generator, device=generator.device)
        # chunk may give fewer than it is asked for
        yield from order[:drawn].tensor_split(steps)


def embed(
    encoder: nn.Module, x: Tensor, edge_index: Tensor, batch: BatchSettings | None = None
) -> Tensor:
    """Embeddings of all nodes, without dropout; layer by layer where `batch` is not the graph."""
    encoder.eval()
    with torch.no_grad():
        if batch is not None and batch.neighbours is not None:
            return layer_wise(encoder, x, edge_index, batch.block)
        embedding: Tensor = encoder(x, edge_index)
    return embedding


def _check_finite(value: float, what: str, epoch: int, settings: TrainingSettings) -> None:
    if not math.isfinite(value):
        raise DataError(
            f"{what} in epoch {epoch}. Lower learning_rate ({settings.learning_rate}) or raise "
            f"temperature ({settings.temperature})."
        )
