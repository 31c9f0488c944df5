"""CoCoS: nodes that seem to be of one class share their attributes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xtcl.baselines.gcn import TwoLayerGCN
from xtcl.baselines.method import Method
from xtcl.baselines.supervised import SupervisedSettings, train_supervised
from xtcl.errors import DataError
from xtcl.lab.methods.self_supervised import sparse_if_few
from xtcl.nn.encoder import encoder_inputs
from xtcl.nn.functional import dropout
from xtcl.progress import Progress
from xtcl.tasks.logistic import stratified_folds
from xtcl.tasks.results import NodePredictions, Predictions
from xtcl.tasks.training_data import TrainingData
from xtcl.training.trainer import embed


@dataclass(frozen=True)
class CoCoSSettings:
    """As published, for every data set alike: two layers of 16 units, two stages of training.

    `contrast` weighs the pairs against the labels: one of the `candidates`, chosen by hidden labels
    in so many `folds`, where it is None; 0 is no second stage. Classes are estimated anew every
    `refresh` epochs of the second stage.
    """

    hidden: int = 16
    dropout: float = 0.6
    weight_decay: float = 5e-4
    first_rate: float = 0.01
    first_epochs: int = 300
    second_rate: float = 0.05
    second_epochs: int = 200
    contrast: float | None = None
    candidates: tuple[float, ...] = (0.0, 0.2, 0.6)
    folds: int = 3
    refresh: int = 10
    discriminator: int = 64

    def epochs(self, contrasts: Sequence[float]) -> int:
        """Of the first stage, and of a second one for each weight but 0."""
        return self.first_epochs + self.second_epochs * int(np.count_nonzero(contrasts))

    def network(self, in_features: int, num_classes: int) -> SharingGCN:
        """A fresh network."""
        return SharingGCN(in_features, self.hidden, num_classes, self.dropout, self.discriminator)

    def stage(self, rate: float, epochs: int) -> SupervisedSettings:
        """One of the two stages."""
        return SupervisedSettings(self.hidden, self.dropout, rate, self.weight_decay, epochs)


class KnownLabels:
    """The training labels on the device, and which nodes have none; `codes` [V], -1 for those."""

    def __init__(self, codes: Tensor) -> None:
        self.nodes = (codes >= 0).nonzero()[:, 0]
        self.classes = codes[self.nodes]
        self.unlabelled = (codes < 0).nonzero()[:, 0]

    def loss(self, scores: Tensor) -> Tensor:
        """Cross-entropy of class scores [V, C]."""
        return F.cross_entropy(F.embedding(self.nodes, scores), self.classes)

    def filled_with(self, scores: Tensor) -> Tensor:
        """Classes [V]: the known, and the likeliest by `scores` [V, C] for all others."""
        return scores.argmax(dim=1).index_put((self.nodes,), self.classes)


class SharingLoss:
    """The loss of the second stage, called once an epoch; it estimates the classes, too."""

    def __init__(
        self,
        network: SharingGCN,
        x: Tensor,
        edge_index: Tensor,
        known: KnownLabels,
        contrast: float,
        refresh: int,
    ) -> None:
        self.network = network
        self.data = x, edge_index
        self.known = known
        self.contrast = contrast
        self.refresh = refresh
        self.epoch = 0
        self._estimate()

    def __call__(self, z: Tensor, generator: torch.Generator) -> Tensor:
        """Of the network's output `z` [V, C]; a new shuffle is drawn every time."""
        if self.epoch and self.epoch % self.refresh == 0:
            self._estimate()
        self.epoch += 1
        shuffled = self.network(*self.data, self.all_nodes.shuffle(generator))
        pairs = cocos_contrast(
            self.network.discriminator,
            F.embedding(self.known.unlabelled, z),
            F.embedding(self.known.unlabelled, shuffled),
            self.unlabelled,
            generator,
        )
        labels = (self.known.loss(z) + self.known.loss(shuffled)) / 2
        return labels + self.contrast * pairs

    def _estimate(self) -> None:
        classes = self.known.filled_with(embed(self.network, *self.data))
        self.network.train()
        self.all_nodes = Contexts(classes)
        self.unlabelled = Contexts(classes[self.known.unlabelled])


class CoCoS(Method):
    r"""A GCN, trained on the labels first, then also to tell nodes of one class from others.

    .. math:: \mathcal L = \tfrac12 (\mathrm{CE}(Z) + \mathrm{CE}(Z'))
              + \alpha \, (\mathcal L_{\mathrm{pos}} + \mathcal L_{\mathrm{neg}}), \qquad
              Z = \mathrm{GCN}(X), \; Z' = \mathrm{GCN}(PX)

    Xie, Tam and Lau, "CoCoS: Enhancing Semi-supervised Learning on Graphs with Unlabeled Data via
    Contrastive Context Sharing", AAAI 2022. P permutes nodes within their estimated classes (the
    true ones where known). The pairs (`contrast`) are of unlabelled nodes only. Cost of an epoch:
    O(nnz(X) h + E h + V C), no V x V matrix.

    The original keeps the model that is best on a validation set, so its second stage can do no
    harm, and estimates classes by it. Here no label is set aside for good. The weight
    :math:`\alpha` of the second stage is 0.6 as published, a third of it, or 0, which leaves the
    stage out: that with which most hidden training labels are right, each hidden once in three
    folds. Then both stages are trained on all labels, for fixed numbers of epochs, and classes are
    estimated by the network of the moment. The choice costs 2,100 epochs beside the 500 of the fit.

    Accuracy decides and not likelihood: the second stage makes answers surer, so that no second
    stage would be likeliest on CiteSeer, where it has 2.7 points less. Hidden labels cannot tell
    200 epochs in the second stage, as in the paper, from the 300 of the authors' programs (417 and
    416 of 527), so it is the quicker 200.

    Test accuracy on trial splits, which no reported figure uses:

    ==============  =====  =====  =====  ======
    weight          none   0.2    0.6    chosen
    ==============  =====  =====  =====  ======
    Cora 1000       83.87  84.20  84.20  84.20
    Cora 1001       83.91  84.57  83.87  84.57
    CiteSeer 1000   68.94  71.01  71.64  71.64
    CiteSeer 1001   71.04  73.21  71.94  73.21
    ==============  =====  =====  =====  ======
    """

    name: ClassVar[str] = "cocos"
    title: ClassVar[str] = "CoCoS"
    tasks: ClassVar[frozenset[str]] = frozenset({"nodes"})

    def __init__(self, settings: CoCoSSettings | None = None) -> None:
        self.settings = settings or CoCoSSettings()

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Choose the weight of the second stage, and train both on all labels."""
        self.check_task(task)
        codes = side.labels
        if not len(side.labelled):
            raise DataError(f"Graph '{side.graph.name}' has no known label to train on; give some.")
        x, edge_index = encoder_inputs(side.graph, device)
        data = CoCoSData(lighter(x), edge_index, side.graph.num_classes)
        settings = self.settings
        weight = settings.contrast
        if weight is None:
            weight = self.choose_contrast(data, codes, seed, progress)
        with progress.stage(f"training {self.title}", settings.epochs([weight])) as advance:
            known = KnownLabels(torch.from_numpy(codes.copy()).to(device))
            scores = train_stages(data, known, [weight], settings, seed=seed, on_epoch=advance)
        return NodePredictions(scores[0].double().cpu().softmax(dim=1).numpy())

    def choose_contrast(
        self, data: CoCoSData, codes: np.ndarray, seed: int, progress: Progress
    ) -> float:
        """The candidate with the most hidden labels right; of equals, the one listed first.

        Each label is hidden once. Cost: a fit of the first stage and one of the second for each
        candidate but 0, in every fold.
        """
        settings, labelled = self.settings, np.flatnonzero(codes >= 0)
        if len(labelled) < 2 * settings.folds:
            return settings.candidates[-1]
        fold_of = stratified_folds(codes[labelled], settings.folds, seed)
        right = np.zeros(len(settings.candidates), dtype=np.int64)
        steps = settings.folds * settings.epochs(settings.candidates)
        with progress.stage(f"choosing the second stage of {self.title}", steps) as advance:
            for fold in range(settings.folds):
                hidden = labelled[fold_of == fold]
                rest = codes.copy()
                rest[hidden] = -1
                known = KnownLabels(torch.from_numpy(rest).to(data.x.device))
                found = train_stages(
                    data, known, settings.candidates, settings, seed=seed, on_epoch=advance
                )
                for place, scores in enumerate(found):
                    answers = scores.argmax(dim=1).cpu().numpy()
                    right[place] += np.sum(answers[hidden] == codes[hidden])
        return settings.candidates[int(right.argmax())]


class CoCoSData(NamedTuple):
    """Attributes [V, D], dense or CSR; links in both directions [2, 2E]; the number of classes."""

    x: Tensor
    edge_index: Tensor
    classes: int


def train_stages(
    data: CoCoSData,
    known: KnownLabels,
    contrasts: Sequence[float],
    settings: CoCoSSettings,
    *,
    seed: int,
    on_epoch: Callable[[int], None] = lambda done: None,
) -> list[Tensor]:
    """Class scores [V, C] for each weight of the second stage, all after the same first one."""
    x, edge_index, classes = data
    # Made once, under the seed of the first stage: the second goes on with its weights.
    first = cache(lambda: settings.network(x.shape[1], classes))
    stage = settings.stage(settings.first_rate, settings.first_epochs)
    plain, _ = train_supervised(
        first, x, edge_index, lambda z, _: known.loss(z), stage, seed=seed, on_epoch=on_epoch
    )
    stage = settings.stage(settings.second_rate, settings.second_epochs)
    found = []
    for contrast in contrasts:
        if not contrast:
            found.append(plain)
            continue
        network = copy.deepcopy(first())
        sharing = SharingLoss(network, x, edge_index, known, contrast, settings.refresh)
        scores, _ = train_supervised(
            partial(_itself, network),
            x,
            edge_index,
            sharing,
            stage,
            seed=seed,
            on_epoch=on_epoch,
        )
        found.append(scores)
    return found


class Contexts:
    """Nodes grouped by their estimated classes [n]; draws partners inside and outside of them.

    Cost of the grouping and of either draw: O(n log n), on the device of the classes.
    """

    def __init__(self, classes: Tensor) -> None:
        sizes = classes.bincount()
        self.classes = classes
        self.grouped = classes.argsort(stable=True)
        self.size = sizes[classes]
        self.start = (sizes.cumsum(0) - sizes)[classes]
        self.several = bool((self.size < len(classes)).any())

    def shuffle(self, generator: torch.Generator) -> Tensor:
        """A permutation [n] of the nodes that keeps classes; all such are equally likely.

        Node i is given node `shuffle[i]`, which may be i itself.
        """
        nodes = torch.randperm(len(self.classes), generator=generator, device=self.classes.device)
        dealt = nodes[self.classes[nodes].argsort(stable=True)]
        return torch.empty_like(dealt).index_put((self.grouped,), dealt)

    def outside(self, generator: torch.Generator) -> Tensor:
        """For every node one of another class, each equally likely [n]; [0] if there is no other.

        The places before and after the node's own class are numbered through and one is drawn.
        """
        if not self.several:
            return self.grouped[:0]
        share = torch.rand(
            len(self.classes), generator=generator, dtype=torch.double, device=self.classes.device
        )
        place = (share * (len(self.classes) - self.size)).long()
        return self.grouped[place + torch.where(place >= self.start, self.size, 0)]


def cocos_contrast(
    discriminator: Callable[[Tensor], Tensor],
    z: Tensor,
    shuffled: Tensor,
    contexts: Contexts,
    generator: torch.Generator,
) -> Tensor:
    r"""The loss of a discriminator between pairs of one context and pairs of two.

    .. math:: \tfrac12 \sum_{p \in \{F, S\}} \overline{-\log \sigma(D(p_i))}
              \; + \; \overline{-\log (1 - \sigma(D(z_i, z_j)))}

    Bars are means over the nodes i. Positive are :math:`F = (z'_i, z_i)`, a node before and after
    the shuffle, and :math:`S = (z'_{\pi(i)}, z'_i)`, two nodes of a class after it; negative is a
    node with another, j, of another class, through which no gradient goes. `z` and `shuffled` (z')
    are [n, C]; D takes rows [n, 2 C]. A mean over no pair at all is 0. Cost: 3 n calls of D.
    """
    partner = contexts.shuffle(generator)
    other = contexts.outside(generator)
    same = _surprise(discriminator, shuffled, z, alike=True)
    shared = _surprise(discriminator, F.embedding(partner, shuffled), shuffled, alike=True)
    apart = _surprise(discriminator, z[: len(other)], z.detach()[other], alike=False)
    return (same + shared) / 2 + apart


def _surprise(
    discriminator: Callable[[Tensor], Tensor], left: Tensor, right: Tensor, *, alike: bool
) -> Tensor:
    """Mean binary cross-entropy of the pairs (left, right)."""
    scores = discriminator(torch.cat([left, right], dim=1))
    targets = torch.full_like(scores, float(alike))
    total = F.binary_cross_entropy_with_logits(scores, targets, reduction="sum")
    return total / max(len(scores), 1)


def _itself(network: SharingGCN) -> SharingGCN:
    return network


class SharingGCN(TwoLayerGCN):
    """A GCN whose nodes may swap their attributes, with a discriminator of pairs of its rows."""

    def __init__(
        self, in_features: int, hidden: int, width: int, dropout: float, discriminator: int
    ) -> None:
        super().__init__(in_features, hidden, width, dropout)
        self.discriminator = nn.Sequential(
            nn.Linear(2 * width, discriminator), nn.ReLU(), nn.Linear(discriminator, 1)
        )

    def forward(self, x: Tensor, edge_index: Tensor, order: Tensor | None = None) -> Tensor:
        """Class scores [V, width]; with an `order`, node i has the attributes of `order[i]`.

        (PX)W = P(XW): the few columns of the product are moved, not the many of `x`, which is
        dense or CSR.
        """
        h = dropout(x, self.dropout, self.training) @ self.first.weight.T
        h = h if order is None else F.embedding(order, h)
        h = F.relu(self.propagation(h, edge_index))
        h = self.second(F.dropout(h, self.dropout, self.training))
        out: Tensor = self.propagation(h, edge_index)
        return out


def lighter(x: Tensor) -> Tensor:
    """The attributes as CSR where that is faster: on a CPU, if few of them are not zero.

    Dropout of all of Cora's and CiteSeer's zeros would take nine tenths of the time.
    """
    return sparse_if_few(x) if x.is_cpu else x
