"""Meta-PN: a network without links, trained on labels propagated over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtcl.baselines.method import Method
from xtcl.errors import UsageError
from xtcl.lab.methods.self_supervised import sparse_if_few
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.functional import sparse_product
from xtcl.nn.propagation import Propagation
from xtcl.progress import Progress
from xtcl.tasks.results import NodePredictions, Predictions
from xtcl.tasks.training_data import TrainingData
from xtcl.training.trainer import seeded

SMOOTHING_HOPS = 10


@dataclass(frozen=True)
class MetaPNSettings:
    """How Meta-PN is trained; an epoch is one step over all nodes.

    `hops` is how far labels spread, `restart` how strongly each step of the final smoothing goes
    back to the network's own answer, `scale` and `decay` weigh the two terms of `PseudoLoss`. Rows
    of attributes are divided by their `row_norm`-norm.
    """

    row_norm: int = 2
    hidden: int = 64
    hops: int = 3
    restart: float = 0.2
    learning_rate: float = 0.03
    meta_rate: float = 5e-4
    scale: float = 51.2
    decay: float = 5e-4
    epochs: int = 300

    def checked(self) -> MetaPNSettings:
        """These settings, or an error that names the one that cannot be used."""
        for name in ("hidden", "hops", "epochs"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be at least 1.")
        return self


META_PN_CITATIONS = MetaPNSettings(row_norm=1, hops=10, decay=5e-3, restart=0.1)


META_PN_SETTINGS = {
    "cora": META_PN_CITATIONS,
    "citeseer": replace(META_PN_CITATIONS, learning_rate=0.015),
    # The published scale is 0.05 for each node of a batch: of 4096 here, and of 1024 elsewhere.
    "pubmed": replace(META_PN_CITATIONS, scale=204.8),
    # Nothing is published for Photo; Computers has the usual settings.
    "photo": MetaPNSettings(learning_rate=0.1, epochs=100),
}


class MetaPN(Method):
    r"""Spreads the known labels over the links, learns how far, and trains a network on the result.

    Labels spread, :math:`Y_k = \hat A^k Y_0`, and a small propagator :math:`\phi` mixes the hops
    (`MetaPropagator`). The network :math:`\theta` sees attributes alone and learns the mixture of
    every node (`PseudoLoss`). Before each of its steps :math:`\phi` takes one: towards a lower
    cross-entropy of the known labels after a virtual step of :math:`\theta` (`meta_objective`). In
    the end the network's class probabilities are smoothed by ten steps of personalised PageRank.
    Ding, Wang, Caverlee and Liu, "Meta Propagation Networks for Graph Few-shot Semi-supervised
    Learning", AAAI 2022. Cost of an epoch: O(nnz(X) h + V K C^2), no link is read; memory
    O(V (D + h + K C)).

    Network, biases and first weights are those of the official code; so are, for citation graphs,
    rows of attributes that sum to 1, hops, restart and weights of the loss. Not as published is how
    long and how fast it learns:

    - The official code stops by a validation set, at a rate of 0.1 (CiteSeer: 0.05). At 0.1 test
      accuracy runs between 59 and 85 on Cora from epoch 150 to 300. Stopped by another 10 % of the
      labels it has 83.5 and 83.8 on two trial splits; after 100, 200 and 300 epochs 79.2, 83.3 and
      81.2, and 73.5, 80.6 and 84.1. The protocol of XTCL's paper has no such set and does not
      mention one. That is the likely cause of a gap to its row.
    - So the rate is three tenths of the published one, where it swings less (78 to 84), and the
      number of epochs is fixed: there is nothing to stop for, and no label is lost to it. A fifth
      of the training labels, hidden in three rounds (seeds 1000 and 1001), has 83.0 on Cora
      with 0.03, 81.5 with 0.02 and 77.2 with 0.01 after 300 epochs.
    - Steps are over all nodes, not over batches of 1024, and the gold loss is over all known
      labels, not over those outside of the batch with labels spread from the others. Virtual steps
      are plain descent, not Adam's.
    - Graphs without published settings, Photo and Computers among them, have three hops and a tenth
      of the decay: on Photo labels that come from the second or third hop are right for 85 % of the
      nodes, those from the tenth for 73 %. Norm of the rows, rate, epochs and restart are those of
      24 settings with the most of the hidden labels right (a fifth of the training labels; seeds
      1000 and 1001). Rows of unit length decide: on Computers the best has 85.8 % with them and
      78.7 with rows that sum to 1, on Photo 92.1 and 90.2.

    With few classes all biases of the propagator may begin below 0. Then it sleeps, and every hop
    is trusted alike. At the published rate of the propagator trust stays near that anyway.

    Test accuracy on trial splits, which no reported figure uses (seeds 1000 to 1003): 84.22 on
    Cora, 72.79 on CiteSeer. With rows of unit length, no biases, restart 0.2 and 100 epochs at 0.01
    it was 83.96 and 71.92. The paper of XTCL has 83.96 and 73.02; the published code reads other,
    connected versions of these two graphs.
    """

    name: ClassVar[str] = "meta-pn"
    title: ClassVar[str] = "Meta-PN"
    tasks: ClassVar[frozenset[str]] = frozenset({"nodes"})

    def __init__(self, settings: MetaPNSettings | None = None) -> None:
        """`settings` instead of those settled for the graph."""
        self.settings = settings

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Train on the known labels, then smooth."""
        self.check_task(task)
        settings = self.settings or META_PN_SETTINGS.get(side.graph.name, MetaPNSettings())
        lesson, edge_index = _lesson(side, settings.checked(), device)
        with progress.stage(f"training {self.title}", settings.epochs) as advance:
            weights = train_meta_pn(lesson, settings, seed=seed, on_epoch=advance)
        with torch.no_grad():
            chances = log_chances(weights, lesson.rows).exp()
        smooth = Propagation(SMOOTHING_HOPS, settings.restart)
        smoothed = smooth(chances, edge_index).double().cpu()
        return NodePredictions((smoothed / smoothed.sum(dim=1, keepdim=True)).numpy())


class FixedRows:
    """Rows [n, D] that never change, ready for products with weights that do.

    They are sparse where few entries are not 0; `sparse_product` does for dense ones too.
    """

    def __init__(self, x: Tensor) -> None:
        self.width = x.shape[1]
        self.rows, self.columns = sparse_if_few(x), sparse_if_few(x.T)

    def times(self, weights: Tensor) -> Tensor:
        """The product [n, h] with `weights` [D, h], which alone have a gradient."""
        return sparse_product(self.rows, self.columns, weights)


class Lesson(NamedTuple):
    """Training data: all rows; known rows and their classes; labels of each hop."""

    rows: FixedRows
    known_rows: FixedRows
    classes: Tensor
    start: Tensor
    spread: Tensor


def _lesson(
    side: TrainingData, settings: MetaPNSettings, device: torch.device
) -> tuple[Lesson, Tensor]:
    """What there is to learn from, and the links."""
    codes = side.known_labels
    x, edge_index = encoder_inputs(side.graph, device)
    x = F.normalize(x, p=settings.row_norm, dim=1)
    known = torch.from_numpy(side.labelled).to(device)
    classes = torch.from_numpy(codes).to(device)
    start = torch.zeros(len(x), side.graph.num_classes, device=device)
    start[known, classes] = 1.0
    spread = labels_per_hop(start, edge_index, settings.hops)
    return Lesson(FixedRows(x), FixedRows(x[known]), classes, start, spread), edge_index


def log_chances(weights: NetworkWeights, rows: FixedRows) -> Tensor:
    r""":math:`\log \text{softmax}(\text{ReLU}(X W_1 + b_1) W_2 + b_2)`, [n, C]."""
    first, first_bias, second, second_bias = weights
    hidden = torch.relu(rows.times(first) + first_bias)
    return F.log_softmax(hidden @ second + second_bias, dim=1)


def first_weights(*widths: int, device: torch.device) -> NetworkWeights:
    r"""Weights [n, m] and biases [m] of each layer, as they begin in the official code.

    Uniform, within :math:`1 / \sqrt n` and :math:`1 / \sqrt m`.
    """
    weights: list[Tensor] = []
    for inner, outer in pairwise(widths):
        for shape, size in (((inner, outer), inner), ((outer,), outer)):
            drawn = torch.empty(shape, device=device).uniform_(-(size**-0.5), size**-0.5)
            weights.append(drawn.requires_grad_())
    return tuple(weights)


def train_meta_pn(
    lesson: Lesson,
    settings: MetaPNSettings,
    *,
    seed: int,
    on_epoch: Callable[[int], None] = lambda done: None,
) -> NetworkWeights:
    """The network's weights. Given the same seed, a run on the CPU repeats to the byte."""
    start, spread, device = lesson.start, lesson.spread, lesson.start.device
    rate, num_classes = settings.learning_rate, start.shape[1]
    loss = PseudoLoss(settings.scale, settings.decay)

    def chances_of(weights: NetworkWeights) -> Tensor:
        return log_chances(weights, lesson.rows)

    def gold_loss(weights: NetworkWeights) -> Tensor:
        return F.nll_loss(log_chances(weights, lesson.known_rows), lesson.classes)

    with seeded(seed, device):
        weights = first_weights(lesson.rows.width, settings.hidden, num_classes, device=device)
        propagator = MetaPropagator(num_classes).to(device)
        optimiser = torch.optim.Adam(weights, lr=rate)
        meta_optimiser = torch.optim.Adam(propagator.parameters(), lr=settings.meta_rate)
        for _ in range(settings.epochs):
            chances, pseudo = chances_of(weights), propagator(start, spread)
            before = loss(pseudo.detach(), chances, weights)
            gradient = torch.autograd.grad(before, weights, retain_graph=True)
            direction = gold_direction(weights, gradient, rate, gold_loss)
            meta_optimiser.zero_grad()
            torch.autograd.backward(
                meta_objective(chances_of, weights, direction, pseudo, loss, rate)
            )
            meta_optimiser.step()
            with torch.no_grad():
                pseudo = propagator(start, spread)
            optimiser.zero_grad()
            torch.autograd.backward(loss(pseudo, chances, weights))
            optimiser.step()
            on_epoch(1)
    return weights


NetworkWeights = tuple[Tensor, ...]
"""All weights of a network."""


OfWeights = Callable[[NetworkWeights], Tensor]
"""What a network gives with such weights: log class probabilities [V, C], or a loss."""


FINITE_STEP = 0.1


def labels_per_hop(start: Tensor, edge_index: Tensor, hops: int) -> Tensor:
    r""":math:`Y_k = \hat A^k Y_0` for k = 1 to K, [V, K, C]. Cost O(K E C)."""
    once = Propagation(1)
    spread = [once(start, edge_index)]
    for _ in range(hops - 1):
        spread.append(once(spread[-1], edge_index))
    return torch.stack(spread, dim=1)


class MetaPropagator(nn.Module):
    r"""Pseudo labels :math:`\tilde y_i = Y_0[i] + \sum_k a_{ik} Y_k[i]`.

    The trust of node i in hop k is :math:`a_{ik} = \text{softmax}_k(v^\top \text{ReLU}(W Y_k[i] +
    b))`. Rows do not sum to 1: those of a node far from all labels are small. Cost O(V K C^2).
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        # W, b and v begin uniform within 1 / sqrt(C), as in the official code.
        self.first = nn.Linear(num_classes, num_classes)
        self.second = nn.Linear(num_classes, 1, bias=False)

    def forward(self, start: Tensor, spread: Tensor) -> Tensor:
        """From the known labels `start` [V, C] and those of each hop, `spread` [V, K, C]."""
        trust: Tensor = self.second(torch.relu(self.first(spread))).softmax(dim=1)
        return start + (trust * spread).sum(dim=1)


@dataclass(frozen=True)
class PseudoLoss:
    r"""What the network is trained by.

    :math:`-\frac{s}{V C} \sum_i \sum_c \tilde y_{ic} \log p_{ic} + \frac{\lambda}{2} \|W_1\|^2`,
    with the first of all weights as :math:`W_1`.
    """

    scale: float
    decay: float

    def fit(self, pseudo: Tensor, log_chances: Tensor) -> Tensor:
        """The first term, which is linear in both."""
        return -self.scale * (pseudo * log_chances).sum() / log_chances.numel()

    def __call__(self, pseudo: Tensor, log_chances: Tensor, weights: NetworkWeights) -> Tensor:
        """Both terms."""
        return self.fit(pseudo, log_chances) + self.decay / 2 * weights[0].square().sum()


def gold_direction(
    weights: NetworkWeights, gradient: NetworkWeights, rate: float, gold_loss: OfWeights
) -> NetworkWeights:
    r""":math:`d = \nabla_{\theta'} L_\text{gold}(\theta')` at :math:`\theta' = \theta - \eta g`.

    The step is plain gradient descent and virtual: no optimiser hears of it.
    """
    moved = tuple(
        (weight - rate * slope).detach().requires_grad_()
        for weight, slope in zip(weights, gradient, strict=True)
    )
    return torch.autograd.grad(gold_loss(moved), moved)


def meta_objective(
    log_chances: OfWeights,
    weights: NetworkWeights,
    direction: NetworkWeights,
    pseudo: Tensor,
    loss: PseudoLoss,
    rate: float,
) -> Tensor:
    r"""A number whose gradient for the propagator is that of the gold loss after a virtual step.

    With :math:`\theta' = \theta - \eta \nabla_\theta L(\theta, \phi)` and d as above, the chain
    rule gives :math:`-\eta \, \nabla_\phi (d^\top \nabla_\theta L)`. The product with d is a
    central difference, as in Liu, Simonyan and Yang, "DARTS", ICLR 2019:
    :math:`-\eta \, [\nabla_\phi L(\theta + \epsilon d, \phi) - \nabla_\phi L(\theta - \epsilon d,
    \phi)] / 2 \epsilon`, where :math:`\epsilon = 0.1 / \|d\|`. L is linear in the log
    probabilities, so one way back through the propagator does for both sides.
    """
    length = torch.stack([part.square().sum() for part in direction]).sum().sqrt()
    step = FINITE_STEP / length.clamp(min=1e-12)  # nothing to learn: no direction, no gradient

    def aside(size: Tensor) -> Tensor:
        pairs = zip(weights, direction, strict=True)
        return log_chances(tuple(weight + size * part for weight, part in pairs))

    with torch.no_grad():
        change = (aside(step) - aside(-step)) / (2 * step)
    return -rate * loss.fit(pseudo, change)
