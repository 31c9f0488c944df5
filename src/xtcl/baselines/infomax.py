"""Telling the nodes of a graph from those of a shuffled one: what DGI and PolyGCL share."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from xtcl.baselines.sparse_attributes import sparse_if_few
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.learning.inputs import encoder_inputs


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
