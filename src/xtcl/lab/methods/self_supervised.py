"""What the self-supervised systems share: embeddings without labels, with the heads of XTCL."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtcl.baselines.method import Method
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import Progress
from xtcl.relations.sparse import quiet_sparse
from xtcl.tasks.link_prediction import VALIDATION_LINK_SHARE, choose_scorer, fit_chosen, hide_links
from xtcl.tasks.logistic import fit_logistic
from xtcl.tasks.results import LinkScores, NodePredictions, Predictions
from xtcl.tasks.self_training import self_train
from xtcl.tasks.training_data import TrainingData


class SelfSupervised(Method):
    """Embeds a graph without its labels; the heads are those of XTCL itself.

    So a table compares embeddings, not the probes that each author happened to use. For links the
    scorer is chosen by training links that a first embedding has not seen, and fitted on a second
    one that has: the price is that a system is trained twice.
    """

    tasks: ClassVar[frozenset[str]] = frozenset({"nodes", "links"})

    @abstractmethod
    def embed(
        self, graph: Graph, *, seed: int, device: torch.device, progress: Progress
    ) -> np.ndarray:
        """Rows [V, h] for the nodes of a graph that has no labels."""

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Embed, and fit the head of the task."""
        self.check_task(task)

        def rows_of(graph: Graph) -> np.ndarray:
            bare = replace(graph, labels=None, classes=())
            return self.embed(bare, seed=seed, device=device, progress=progress)

        if task == "nodes":
            known, classes = side.labelled, side.labels[side.labelled]
            rows = rows_of(side.graph)
            first = fit_logistic(rows[known], classes, seed=seed, device=device)
            head = self_train(first, rows, known, classes, seed=seed, device=device)
            return NodePredictions(head.predict_proba(rows, side.graph.num_classes, device))
        links = hide_links(side, VALIDATION_LINK_SHARE, seed)
        chosen = choose_scorer(links, rows_of(links.graph), seed, device=device)
        rows = rows_of(side.graph)
        scorer = fit_chosen(chosen, side, rows, seed, device=device)
        return LinkScores(lambda pairs: scorer.score(rows, pairs, device))


def infomax_inputs(graph: Graph, device: torch.device) -> tuple[Tensor, Tensor]:
    """Attributes whose magnitudes sum to 1 in each row, sparse (CSR) if few; links both ways."""
    x, edge_index = encoder_inputs(graph, device)
    return sparse_if_few(F.normalize(x, p=1.0, dim=1)), edge_index


def shuffle_rows(rows: Tensor, generator: torch.Generator) -> Tensor:
    """The rows [V, h] in a random order; PX W is P(XW), so projected rows do for attributes."""
    order = torch.randperm(len(rows), generator=generator, device=rows.device)
    return F.embedding(order, rows)


class Discriminator(nn.Module):
    r"""Scores :math:`h_i^\top W s + b` of rows h [V, d] against a summary s [d]. Cost O(V d)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, width)))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, rows: Tensor, summary: Tensor) -> Tensor:
        """Scores [V]."""
        return rows @ (self.weight @ summary) + self.bias

    def loss(self, real: Sequence[Tensor], fake: Sequence[Tensor], summary: Tensor) -> Tensor:
        """Mean binary cross-entropy: rows of `real` views belong to the summary, `fake` do not."""
        scores = torch.cat([self(rows, summary) for rows in (*real, *fake)])
        targets = torch.zeros_like(scores)
        targets[: sum(len(rows) for rows in real)] = 1.0
        return F.binary_cross_entropy_with_logits(scores, targets)


def train_until_flat(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss_of: Callable[[], Tensor],
    *,
    epochs: int,
    patience: int,
    on_epoch: Callable[[int], None] = lambda done: None,
) -> tuple[float, ...]:
    """Step until the training loss has had no new low for `patience` epochs; the losses seen.

    The network is left with the weights that gave the lowest loss: those before the step that the
    loss led to. Epochs that need not be run count as done.
    """
    if epochs < 1 or patience < 1:
        raise UsageError(f"epochs={epochs} and patience={patience} must be at least 1.")
    losses: list[float] = []
    best, best_epoch, best_state = math.inf, 0, network.state_dict()
    for epoch in range(epochs):
        network.train()
        loss = loss_of()
        losses.append(loss.item())  # stopping has to know
        if not math.isfinite(losses[-1]):
            raise DataError(
                f"The loss became {losses[-1]} in epoch {epoch + 1}. Lower the learning rate."
            )
        if losses[-1] < best:
            best, best_epoch, best_state = losses[-1], epoch, copy.deepcopy(network.state_dict())
        elif epoch - best_epoch == patience:
            on_epoch(epochs - epoch)
            break
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        on_epoch(1)
    network.load_state_dict(best_state)
    return tuple(losses)


SPARSE_BELOW = 0.05
"""Share of values other than 0: Cora and CiteSeer have 0.01, PubMed 0.1, Photo and Computers 0.35.

As a sparse matrix the words of Cora and CiteSeer take a tenth of the time in a product with the
weights of a layer, forth and back.
"""


def sparse_if_few(x: Tensor) -> Tensor:
    """`x` [n, D] as CSR if few of its values are not 0, otherwise `x` itself."""
    if x.count_nonzero() >= SPARSE_BELOW * x.numel():
        return x
    with quiet_sparse():
        return x.contiguous().to_sparse_csr()


Settings = TypeVar("Settings")


class WithTaskSettings(SelfSupervised, Generic[Settings]):
    """Fits with the settings of graph and task; `embed` by itself takes those for nodes."""

    def __init__(self, settings: Settings | None = None) -> None:
        """`settings` instead of those of the graph and the task."""
        self.settings = settings

    @abstractmethod
    def settings_for(self, graph: Graph, task: str) -> Settings:
        """The settings for a graph, which its name may tell, and a task."""

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Settle the settings, embed, and fit the head of the task."""
        self.check_task(task)
        settled = type(self)(self.settings or self.settings_for(side.graph, task))
        return super(WithTaskSettings, settled).fit(
            side, task, seed=seed, device=device, progress=progress
        )
