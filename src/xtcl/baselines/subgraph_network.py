"""SubGraph's network over pairs of nodes, and its training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from xtcl.errors import UsageError
from xtcl.learning.trainer import seeded

SCORED_AT_ONCE = 4096


@dataclass(frozen=True)
class SubGraphSettings:
    """How far balls reach and how the network is trained; `batch` is in pairs.

    Training has a fixed length, because the protocol has no validation set to stop by: `epochs`, or
    more where a small graph would not get `least_steps` steps out of them.
    """

    hops: int = 2
    width: int = 256
    dropout: float = 0.5
    learning_rate: float = 1e-3
    epochs: int = 10
    least_steps: int = 64
    batch: int = 1024

    def batches(self, pairs: int) -> int:
        """Batches of an epoch, all of about one size: none may be left with a single pair."""
        return max(1, round(pairs / self.batch))

    def rounds(self, pairs: int) -> int:
        """Epochs on so many pairs."""
        if self.epochs < 1:
            raise UsageError(f"epochs={self.epochs} must be at least 1.")
        return max(self.epochs, -(-self.least_steps // self.batches(pairs)))


class PairNetwork(nn.Module):
    r""":math:`w^T [s_{uv} \| e_{uv}]`, the log-odds of a link.

    :math:`e_{uv} = \text{ReLU}(\text{BN}(W_o (W \tilde x_u \odot W \tilde x_v)))` of the smoothed
    attributes and :math:`s_{uv} = \text{ReLU}(\text{BN}(W_s f_{uv}))` of the counts, both with
    dropout. Cost of n pairs: O(n h (D + h)).
    """

    def __init__(self, in_features: int, counts: int, settings: SubGraphSettings) -> None:
        super().__init__()
        width = settings.width
        self.inner = nn.Linear(in_features, width)
        self.outer = nn.Linear(width, width)
        self.outer_norm = nn.BatchNorm1d(width)
        self.structure = nn.Linear(counts, counts)
        self.structure_norm = nn.BatchNorm1d(counts)
        self.readout = nn.Linear(counts + width, 1)
        self.dropout = settings.dropout

    def forward(self, left: Tensor, right: Tensor, counts: Tensor) -> Tensor:
        """Log-odds [n] of pairs with smoothed attributes [n, D] of either end and counts [n, c]."""
        e = F.relu(self.outer_norm(self.outer(self.inner(left) * self.inner(right))))
        s = F.relu(self.structure_norm(self.structure(counts)))
        both = F.dropout(torch.cat([s, e], dim=1), self.dropout, self.training)
        found: Tensor = self.readout(both)
        return found.squeeze(1)


@dataclass(frozen=True)
class PairInputs:
    """What the network reads of pairs: their ends [2, n], counts [n, c], attributes [V, D]."""

    ends: Tensor
    counts: Tensor
    smoothed: Tensor

    def __len__(self) -> int:
        return len(self.counts)

    def at(self, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The network's three inputs for some of the pairs."""
        u, v = self.ends[:, chosen]
        return self.smoothed[u], self.smoothed[v], self.counts[chosen]


def train_pairs(
    inputs: PairInputs,
    targets: Tensor,
    settings: SubGraphSettings,
    *,
    seed: int,
    on_epoch: Callable[[int], None] = lambda done: None,
) -> tuple[PairNetwork, tuple[float, ...]]:
    """Adam on the mean binary cross-entropy; the network, and the mean loss of each epoch.

    Given the same seed, a run on the CPU repeats to the byte.
    """
    device, pairs = targets.device, len(inputs)
    losses: list[Tensor] = []
    with seeded(seed, device) as generator:
        columns = inputs.smoothed.shape[1], inputs.counts.shape[1]
        network = PairNetwork(*columns, settings).to(device)
        optimiser = torch.optim.Adam(network.parameters(), lr=settings.learning_rate)
        for _ in range(settings.rounds(pairs)):
            total = torch.zeros((), device=device)
            order = torch.randperm(pairs, generator=generator, device=device)
            for chosen in order.tensor_split(settings.batches(pairs)):
                odds = network(*inputs.at(chosen))
                loss = F.binary_cross_entropy_with_logits(odds, targets[chosen])
                optimiser.zero_grad()
                torch.autograd.backward(loss)
                optimiser.step()
                total += loss.detach() * len(chosen)
            losses.append(total / pairs)
            on_epoch(1)
    return network.eval(), tuple(torch.stack(losses).tolist())


@torch.no_grad()
def log_odds(network: PairNetwork, inputs: PairInputs) -> Tensor:
    """The network's answer for all pairs, [n], in blocks."""
    everything = torch.arange(len(inputs), device=inputs.ends.device)
    blocks = everything.tensor_split(len(inputs) // SCORED_AT_ONCE + 1)
    return torch.cat([network(*inputs.at(block)) for block in blocks])
