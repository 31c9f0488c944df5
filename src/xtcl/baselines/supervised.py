"""What the GCN and GAT controls share: two layers, trained end to end on the task itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from xtcl.baselines.link_loss import NonLinks, link_loss
from xtcl.baselines.method import Method
from xtcl.errors import DataError, UsageError
from xtcl.learning.inputs import encoder_inputs
from xtcl.learning.trainer import embed, seeded
from xtcl.progress import Progress
from xtcl.tasks.answers import Answer, LinkAnswer, NodeAnswer
from xtcl.tasks.pair_features import pair_scores
from xtcl.tasks.training_side import TrainingSide

Loss = Callable[[Tensor, torch.Generator], Tensor]
"""The loss of the network's output [V, width]; may draw."""


@dataclass(frozen=True)
class SupervisedSettings:
    """How a network is trained. `epochs` is fixed: the protocol has no validation set to stop by.

    `width` is that of the output for links; for nodes it is the number of classes.
    """

    hidden: int
    dropout: float
    learning_rate: float
    weight_decay: float
    epochs: int
    width: int = 0


def train_supervised(
    make_network: Callable[[], nn.Module],
    x: Tensor,
    edge_index: Tensor,
    loss_of: Loss,
    settings: SupervisedSettings,
    *,
    seed: int,
    on_epoch: Callable[[int], None] = lambda done: None,
) -> tuple[Tensor, tuple[float, ...]]:
    """Full-batch Adam for a fixed number of epochs; the output without dropout, and each loss.

    Given the same seed, a run on the CPU repeats to the byte.
    """
    if settings.epochs < 1:
        raise UsageError(f"epochs={settings.epochs} must be at least 1.")
    losses: list[Tensor] = []
    with seeded(seed, x.device) as generator:
        network = make_network().to(x.device)
        optimiser = torch.optim.Adam(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        for _ in range(settings.epochs):
            network.train()
            loss = loss_of(network(x, edge_index), generator)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            losses.append(loss.detach())
            on_epoch(1)
        output = embed(network, x, edge_index)
    return output, tuple(torch.stack(losses).tolist())


class Supervised(Method):
    """A network with class scores as output, or with embeddings whose inner products are scores."""

    tasks: ClassVar[frozenset[str]] = frozenset({"nodes", "links"})
    settings: ClassVar[dict[str, SupervisedSettings]]

    def __init__(self, epochs: int | None = None) -> None:
        """`epochs` instead of the settled number, for either task."""
        self.epochs = epochs

    @abstractmethod
    def network(self, in_features: int, width: int, settings: SupervisedSettings) -> nn.Module:
        """A fresh network whose forward takes (x, edge_index) and gives [V, width]."""

    def fit(
        self,
        side: TrainingSide,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Answer:
        """Train on the known labels, or on the known links against random non-links."""
        self.check_task(task)
        settings = self.settings[task]
        settings = settings if self.epochs is None else replace(settings, epochs=self.epochs)
        nodes = task == "nodes"
        width = side.graph.num_classes if nodes else settings.width
        loss_of = _label_loss(side, device) if nodes else _links_loss(side, device)
        x, edge_index = encoder_inputs(side.graph, device)
        with progress.stage(f"training {self.title}", settings.epochs) as advance:
            output, _ = train_supervised(
                lambda: self.network(x.shape[1], width, settings),
                x,
                edge_index,
                loss_of,
                settings,
                seed=seed,
                on_epoch=advance,
            )
        found = output.double().cpu()
        return NodeAnswer(found.softmax(dim=1).numpy()) if nodes else _inner(found.numpy())


def _inner(embedding: np.ndarray) -> LinkAnswer:
    return LinkAnswer(lambda pairs: pair_scores(embedding, pairs, unit=False))


def _label_loss(side: TrainingSide, device: torch.device) -> Loss:
    """Cross-entropy of the known labels."""
    classes = torch.from_numpy(side.known_labels).to(device)
    labelled = torch.from_numpy(side.labelled).to(device)
    return lambda output, generator: F.cross_entropy(output[labelled], classes)


def _links_loss(side: TrainingSide, device: torch.device) -> Loss:
    """Links of the training graph against as many of its non-links, drawn anew each epoch."""
    graph = side.graph
    if not (graph.num_edges and side.negatives.size):
        raise DataError(f"Graph '{graph.name}' has no training link or non-link to learn from.")
    links = torch.from_numpy(np.array(graph.edges)).to(device)
    non_links = NonLinks(links, graph.num_nodes)
    return lambda output, generator: link_loss(
        output, links, non_links.draw(links.shape[1], generator)
    )
