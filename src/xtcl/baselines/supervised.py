"""What the GCN and GAT controls share: a few layers, trained end to end on the task itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtcl.baselines.method import Method
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import Progress
from xtcl.relations.sparse import is_among
from xtcl.tasks import LinkScores, NodePredictions, Predictions, TrainingData
from xtcl.tasks.link_head import checked_pairs, pair_scores
from xtcl.training.trainer import embed, seeded

NetworkLoss = Callable[[Tensor, torch.Generator], Tensor]
"""The loss of the network's output [V, width]; may draw."""


@dataclass(frozen=True)
class SupervisedSettings:
    """How a network is trained. `epochs` is fixed: the protocol has no validation set to stop by.

    An epoch is one step. For links with a `batch`, it is as many steps as there are batches of
    links, and no graph is too small for `least_steps`. `width` is that of the output for links; for
    nodes it is the number of classes. Links are scored by the inner product, or by a `perceptron`
    (`PairPerceptron`). The last four are for GAT alone.
    """

    hidden: int
    dropout: float
    learning_rate: float
    weight_decay: float
    epochs: int
    width: int = 0
    perceptron: bool = False
    batch: int | None = None
    least_steps: int = 0
    layers: int = 2
    attention_dropout: float = 0.0
    last_heads: int = 1
    norm: bool = False
    residual: bool = False

    def with_steps(self, links: int) -> SupervisedSettings:
        """These settings, with one epoch for each step that a graph with so many links needs."""
        batches = 1 if self.batch is None else max(1, round(links / self.batch))
        return replace(self, epochs=max(self.epochs * batches, self.least_steps))

    def scorer(self) -> PairPerceptron | None:
        """A fresh scorer of links, if it is none that needs no weights."""
        return PairPerceptron(self.width, self.dropout) if self.perceptron else None


LINK_SETTINGS = SupervisedSettings(
    hidden=0,
    dropout=0.5,
    learning_rate=0.001,
    weight_decay=0.0,
    epochs=20,
    width=256,
    perceptron=True,
    batch=4096,
    least_steps=100,
    layers=1,
)
"""One layer under a perceptron, for GCN and GAT alike; `GCN` has the figures behind it."""


def train_supervised(
    make_network: Callable[[], nn.Module],
    x: Tensor,
    edge_index: Tensor,
    loss_of: NetworkLoss,
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
    """A network with class scores as output, or with embeddings whose products are scored."""

    tasks: ClassVar[frozenset[str]] = frozenset({"nodes", "links"})
    settings: ClassVar[dict[str, SupervisedSettings]]
    """Of each task."""
    published: ClassVar[dict[tuple[str, str], SupervisedSettings]] = {}
    """Of task and graph, by its name, where that has its own."""

    def __init__(
        self, epochs: int | None = None, settings: SupervisedSettings | None = None
    ) -> None:
        """`settings` instead of those of task and graph; `epochs` instead of their number."""
        self.epochs, self.given = epochs, settings

    @abstractmethod
    def network(self, in_features: int, width: int, settings: SupervisedSettings) -> nn.Module:
        """A fresh network whose forward takes (x, edge_index) and gives [V, width]."""

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Train on the known labels, or on the known links against random non-links."""
        self.check_task(task)
        settings = self.settings_for(side.graph, task)
        if task == "links":
            settings = settings.with_steps(side.graph.num_edges)
        x, edge_index = encoder_inputs(side.graph, device)
        with progress.stage(f"training {self.title}", settings.epochs) as advance:

            def train(make_network: Callable[[], nn.Module], loss_of: NetworkLoss) -> Tensor:
                return train_supervised(
                    make_network, x, edge_index, loss_of, settings, seed=seed, on_epoch=advance
                )[0]

            if task == "nodes":
                classes = side.graph.num_classes
                output = train(
                    lambda: self.network(x.shape[1], classes, settings), _label_loss(side, device)
                )
                return NodePredictions(output.double().cpu().softmax(dim=1).numpy())
            # Made once, under the seed of the training: the loss needs its scorer too.
            network = cache(
                lambda: LinkNetwork(
                    self.network(x.shape[1], settings.width, settings), settings.scorer()
                )
            )
            loss_of = _links_loss(side, device, lambda p: network().score(p), settings.batch)
            z = train(network, loss_of)
            return network().answer(z)

    def settings_for(self, graph: Graph, task: str) -> SupervisedSettings:
        """Those given, or else those of task and graph."""
        usual = self.given or self.published.get((task, graph.name), self.settings[task])
        if self.epochs is None:
            return usual
        return replace(usual, epochs=self.epochs, least_steps=0)  # as many as given


def _label_loss(side: TrainingData, device: torch.device) -> NetworkLoss:
    """Cross-entropy of the known labels."""
    classes = torch.from_numpy(side.known_labels).to(device)
    labelled = torch.from_numpy(side.labelled).to(device)
    return lambda output, generator: F.cross_entropy(output[labelled], classes)


def _links_loss(
    side: TrainingData, device: torch.device, scorer: PairScorer, batch: int | None
) -> NetworkLoss:
    """Links of the training graph against as many of its non-links, drawn anew each step.

    With a `batch`, graphs that have more links draw so many, with replacement.
    """
    graph = side.graph
    if not (graph.num_edges and side.negatives.size):
        raise DataError(f"Graph '{graph.name}' has no training link or non-link to learn from.")
    links = torch.from_numpy(np.array(graph.edges)).to(device)
    count = links.shape[1]
    non_links = NonLinkSampler(links, graph.num_nodes)

    def loss(output: Tensor, generator: torch.Generator) -> Tensor:
        drawn = links
        if batch is not None and batch < count:
            drawn = links[:, torch.randint(count, (batch,), generator=generator, device=device)]
        return link_loss(output, drawn, non_links.draw(drawn.shape[1], generator), scorer)

    return loss


PairScorer = Callable[[Tensor], Tensor]
"""Log-odds [n] of pairs from the element-wise products of their ends [n, h]."""


def inner_product(products: Tensor) -> Tensor:
    """The scorer of a graph auto-encoder."""
    return products.sum(dim=1)


def link_loss(
    z: Tensor, links: Tensor, non_links: Tensor, scorer: PairScorer = inner_product
) -> Tensor:
    r"""Mean binary cross-entropy of :math:`\sigma(s(z_u \odot z_v))` over pairs [2, n].

    With the inner product as s: Kipf and Welling, "Variational Graph Auto-Encoders", 2016. Cost
    O(n h), and that of the scorer.
    """
    u, v = torch.cat([links, non_links], dim=1)
    targets = torch.zeros(len(u), device=z.device)
    targets[: links.shape[1]] = 1.0
    # The gradient of an embedding look-up, unlike that of z[u], is summed in a fixed order.
    ends = F.embedding(u, z), F.embedding(v, z)
    return F.binary_cross_entropy_with_logits(scorer(ends[0] * ends[1]), targets)


class NonLinkSampler:
    """Uniform draws, on the device of the links, from the pairs that are no links.

    They come with replacement: an epoch sees a vanishing share of all pairs, and so no draw needs a
    sort. `links` [2, E] are sorted, each once with u < v, as a graph keeps them.
    """

    def __init__(self, links: Tensor, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.keys = links[0] * num_nodes + links[1]

    def draw(self, want: int, generator: torch.Generator) -> Tensor:
        """Non-links [2, n]; n is `want`, or less where most of all pairs are links.

        Links and loops are struck from twice as many pairs as are wanted. Cost O(n log E).
        """
        ends = torch.randint(
            self.num_nodes, (2, 2 * want + 64), generator=generator, device=self.keys.device
        )
        u, v = ends.min(dim=0).values, ends.max(dim=0).values
        keys = u * self.num_nodes + v
        free = (u != v) & ~is_among(keys, self.keys)
        return torch.stack([u[free], v[free]])[:, :want]


SCORED_AT_ONCE = 2**16


class PairPerceptron(nn.Module):
    r""":math:`w^\top g_2(g_1(z_u \odot z_v)) + c`, where :math:`g_i(p) = \text{ReLU}(W_i p + b_i)`.

    Three layers with dropout after each but the last, as in Li and others, "Evaluating Graph Neural
    Networks for Link Prediction: Current Pitfalls and New Benchmarking", NeurIPS 2023. Cost of n
    pairs: O(n h^2).
    """

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.last = nn.Linear(width, 1)
        self.dropout = dropout

    def forward(self, products: Tensor) -> Tensor:
        """Log-odds [n] of products [n, width]."""
        h = products
        for linear in self.inner:
            h = F.dropout(F.relu(linear(h)), self.dropout, self.training)
        found: Tensor = self.last(h)
        return found.squeeze(1)


class LinkNetwork(nn.Module):
    """An encoder of nodes and a scorer of pairs, trained as one; None is the inner product."""

    def __init__(self, encoder: nn.Module, scorer: PairPerceptron | None) -> None:
        super().__init__()
        self.encoder, self.scorer = encoder, scorer

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Embeddings [V, width]."""
        z: Tensor = self.encoder(x, edge_index)
        return z

    def score(self, products: Tensor) -> Tensor:
        """Log-odds [n] of the element-wise products [n, width] of two embeddings."""
        return inner_product(products) if self.scorer is None else self.scorer(products)

    def answer(self, z: Tensor) -> LinkScores:
        """Scores by embeddings [V, width] that the trained network gave."""
        if self.scorer is None:
            embedding = z.double().cpu().numpy()
            return LinkScores(lambda pairs: pair_scores(embedding, pairs, unit=False))
        self.eval()

        @torch.no_grad()
        def score(pairs: np.ndarray) -> np.ndarray:
            ends = torch.from_numpy(checked_pairs(pairs, len(z))).to(z.device)
            found = [self.score(z[u] * z[v]) for u, v in torch.split(ends, SCORED_AT_ONCE, dim=1)]
            return np.asarray(torch.cat(found).double().cpu().numpy())

        return LinkScores(score)
