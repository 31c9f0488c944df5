"""What the contrastive losses of the paper share: all of XTCL but its positives."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xtcl.baselines.method import Method
from xtcl.config import FitConfig
from xtcl.errors import DataError, UsageError
from xtcl.graph.graph import Graph
from xtcl.progress import Advance, Progress
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.rows import NO_NODE, DenseRows, all_nodes
from xtcl.relations.view import TrainingView
from xtcl.sampling.patterns import PatternCounts
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.fit import FitOptions, SampledPositives, train_ensemble, with_head
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import Predictions
from xtcl.tasks.task import Selected
from xtcl.tasks.training_data import TrainingData


class Contrastive(Method):
    r"""A GCN under Equation 1, with positives of the subclass's own.

    .. math:: \mathcal L(u) = -\frac 1B \sum_{b=1}^B \log \frac{e^{s(u, p_b)}}
              {e^{s(u, p_b)} + \sum_{k=1}^K e^{s(u, n_k)}}

    Lin and Neville, "Improving Node Representation by Boosting Task-Aware Contrastive Loss", 2024,
    Sections 2 and 4.2, compare such losses, and publish them as a figure without numbers or
    settings. Here encoders, their training, the number of positives, negatives, the attributes
    beside the embedding and the head are those of XTCL's recipe, by the same code, so that only
    :math:`p_b` tells the systems apart. One thing has to differ: only XTCL's sampler can say how
    far its positives are to be trusted, so those of the others are trusted in full.

    Test accuracy on trial splits, which no reported figure uses (Cora: seeds 1000 and 1001,
    CiteSeer: 1000), and the share of positives with the class of their node at seed 1000:

    ===========  =====  ========  ==============  =================
    system       Cora   CiteSeer  right on Cora   right on CiteSeer
    ===========  =====  ========  ==============  =================
    SSCL         85.80  73.28     66.1            56.9
    SCL          84.51  71.24     100             100
    Naive TCL    85.87  72.51                     61.3
    Ceiling SCL  90.65  82.23     100             100
    XTCL (GCN)   85.74  73.61
    ===========  =====  ========  ==============  =================

    SCL has a tenth of the anchors. Two splits cannot tell SSCL, Naive TCL and XTCL apart on Cora.
    """

    tasks: ClassVar[frozenset[str]] = frozenset({"nodes"})

    def __init__(self, recipe: FitConfig | None = None) -> None:
        """`recipe` instead of XTCL's own for nodes; its sampler gives no more than the quantile."""
        self.recipe = recipe

    @abstractmethod
    def positives(self, side: TrainingData, recipe: FitConfig, options: FitOptions) -> np.ndarray:
        """A table [V, B] with `recipe.positives` positives of each node, -1 in empty places.

        A node without any is no anchor.
        """

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Train on the positives, and fit the head."""
        self.check_task(task)
        nodes = NodeClassification()
        recipe = self.recipe or nodes.recipe("gcn")
        options = FitOptions(encoder="gcn", seed=seed, device=device, progress=progress)
        table = self.positives(side, recipe, options)
        if not (table >= 0).any():
            raise DataError(
                f"{self.title} finds no positive for any node of graph '{side.graph.name}': "
                "give more labels or links, or attributes that say more."
            )
        options = replace(options, progress=_Naming(progress, self.title))
        found = SampledPositives(unlearned_sampler(side, device), table)
        plan = recipe.ensembles[0]
        fitted = train_ensemble(side.graph, nodes, recipe, plan, found, options)
        return with_head(side, nodes, recipe, Selected(plan), fitted, options).answer


def unlearned_sampler(side: TrainingData, device: torch.device) -> XGSampler:
    """A sampler that knows no label and has seen no pair: it prefers no relation to another."""
    view = TrainingView.of(side.graph, device=device)
    return XGSampler().restore(view, PatternCounts(np.zeros(0, np.int64), np.zeros((0, 2), int)))


class _Naming(Progress):
    """Says whose work it is."""

    def __init__(self, listener: Progress, title: str) -> None:
        self.listener = listener
        self.title = title

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        with self.listener.stage(f"{name} {self.title}", steps) as advance:
            yield advance


class CeilingSCL(Contrastive):
    r"""XTCL with the true classes of all nodes. It sees the test labels: no competitor.

    .. math:: p_b \sim \mathcal U\{v \in V \setminus u \mid y_v = y_u\}, \qquad u \in V

    Definition 6 of Lin and Neville (2024): what the loss could do with positives that are always
    right. The encoder trains on the true labels of all nodes, test nodes included; the head is
    fitted on training labels as ever. The training data hold no such labels, so whoever wants the
    ceiling has to hand them over as `truth`, and a method made by name alone refuses to fit. Cost
    of the positives: O(V B).
    """

    name: ClassVar[str] = "ceiling-scl"
    title: ClassVar[str] = "Ceiling SCL (sees the test labels)"

    def __init__(self, truth: np.ndarray | None = None, recipe: FitConfig | None = None) -> None:
        """`truth` holds the label code of every node, -1 where it is unknown."""
        super().__init__(recipe)
        self.truth = truth

    def positives(self, side: TrainingData, recipe: FitConfig, options: FitOptions) -> np.ndarray:
        """Any nodes of the same class."""
        return class_positives(self._true_labels(side), recipe.positives, seed=options.seed)

    def _true_labels(self, side: TrainingData) -> np.ndarray:
        if self.truth is None:
            raise UsageError(
                f"{self.title} needs the true labels of all nodes, which no fit is shown: hand "
                "them over as CeilingSCL(truth=graph.labels). It is a ceiling, no competitor."
            )
        known = side.labelled
        fits = self.truth.shape == side.labels.shape
        if not fits or (self.truth[known] != side.labels[known]).any():
            raise DataError(
                f"The true labels given to {self.title} contradict those of graph "
                f"'{side.graph.name}': give the labels of the graph that was split."
            )
        return self.truth


def with_truth(method: Method, graph: Graph) -> Method:
    """The method itself; the ceiling with the true labels of `graph` in its hands."""
    if not isinstance(method, CeilingSCL):
        return method
    return CeilingSCL(graph.labels, method.recipe)


class NaiveTCL(Contrastive):
    r"""SCL for labelled nodes, SSCL for all the others.

    .. math:: p_b \sim \begin{cases} \mathcal U\{v \in V_L \setminus u \mid y_v = y_u\}
              & u \in V_L \\ \mathcal U\{v \mid s_r(u, v) \ge \eta_{r,u}\}, \;
              r \sim \mathcal U(\mathcal R_f) & \text{else} \end{cases}

    Definition 7 of Lin and Neville (2024). A node that is alone with its label has the positives of
    an unlabelled one. With the same seed the positives are those of SCL and of SSCL. Cost: that of
    SSCL.
    """

    name: ClassVar[str] = "naive-tcl"
    title: ClassVar[str] = "Naive TCL"

    def positives(self, side: TrainingData, recipe: FitConfig, options: FitOptions) -> np.ndarray:
        """Labelled nodes of the same class, else nodes that are above for some relation."""
        alike = class_positives(side.labels, recipe.positives, seed=options.seed)
        near = relation_positives(side, recipe, options)
        return np.where(alike == NO_NODE, near, alike)


class SCL(Contrastive):
    r"""XTCL with labels alone: draws together labelled nodes of the same class.

    .. math:: p_b \sim \mathcal U\{v \in V_L \setminus u \mid y_v = y_u\}, \qquad u \in V_L

    Definition 2 of Lin and Neville (2024), after Khosla and others, NeurIPS 2020. Only labelled
    nodes :math:`V_L` are anchors, and of those only nodes whose class has another; negatives are
    random nodes of the graph, labelled or not. Cost of the positives: O(V B).
    """

    name: ClassVar[str] = "scl"
    title: ClassVar[str] = "SCL"

    def positives(self, side: TrainingData, recipe: FitConfig, options: FitOptions) -> np.ndarray:
        """Labelled nodes of the same class."""
        return class_positives(side.labels, recipe.positives, seed=options.seed)


def class_positives(labels: np.ndarray, number: int, *, seed: int) -> np.ndarray:
    """A table [V, number] of random other nodes with the same label.

    -1 for a node without a label, or alone with it.
    """
    rng = np.random.default_rng(seed)
    table = np.full((len(labels), number), NO_NODE, dtype=np.int64)
    for label in np.unique(labels[labels >= 0]):
        members = np.flatnonzero(labels == label)
        if len(members) > 1:
            place = rng.integers(len(members) - 1, size=(len(members), number))
            place += place >= np.arange(len(members))[:, None]  # steps over the node itself
            table[members] = members[place]
    return table


class SSCL(Contrastive):
    r"""XTCL without labels: draws together nodes that any of the relations takes for alike.

    .. math:: p_b \sim \mathcal U\{v \mid s_r(u, v) \ge \eta_{r,u}\}, \qquad
              r \sim \mathcal U(\mathcal R_f)

    Definition 1 of Lin and Neville (2024): every relation gives as many positives.
    :math:`\mathcal R_f` are those of the paper's relations that read no label, less those for which
    no node is above for u. The definition gives each of them :math:`\lfloor B / |\mathcal R_f|
    \rfloor` of the B positives, which is the same on average; drawn one by one they need not
    divide, and a relation without nodes for u leaves its places to the others. Labels serve the
    head alone. Cost: one pass over the rows of the relations, O(V^2) time, in blocks of rows, and
    O(V B) memory.
    """

    name: ClassVar[str] = "sscl"
    title: ClassVar[str] = "SSCL"

    def positives(self, side: TrainingData, recipe: FitConfig, options: FitOptions) -> np.ndarray:
        """Nodes that are above for some relation."""
        return relation_positives(side, recipe, options)


def relation_positives(side: TrainingData, recipe: FitConfig, options: FitOptions) -> np.ndarray:
    """A table [V, B]: for each place a relation at random, then one of its above nodes.

    The draws are the same for any height of the blocks. A node without any above node has -1.
    """
    sampler = unlearned_sampler(side, options.device)
    rows = DenseRows(sampler.relations_, sampler.view_, recipe.sampler.quantiles[-1:])
    rng = np.random.default_rng(options.seed)
    found = []
    with options.progress.stage("finding positives", rows.num_nodes) as advance:
        for nodes in rows.blocks(
            all_nodes(rows.num_nodes), rows_per_block(rows.num_nodes, rows.device)
        ):
            shape = (len(nodes), len(rows.relations) + 1, recipe.positives)
            chances = torch.from_numpy(rng.random(shape)).to(options.device)
            of_each = [_draw(above, chances[:, -1]) for _, above in rows(nodes)]
            found.append(_of_one(torch.stack(of_each, dim=1), chances[:, :-1]).cpu().numpy())
            advance(len(nodes))
    return np.concatenate(found)


def _draw(above: Tensor, chances: Tensor) -> Tensor:
    """For each chance [b, B] one of the nodes that are set in `above` [b, V]; -1 without any."""
    rank = above.cumsum(dim=1, dtype=torch.int32)
    number = rank[:, -1:]
    wanted = (chances * number).int() + 1
    return torch.searchsorted(rank, wanted).masked_fill(number == 0, NO_NODE)


def _of_one(drawn: Tensor, lots: Tensor) -> Tensor:
    """Of what the relations drew [b, R, B], that of the highest lot among those with somebody."""
    winner = lots.masked_fill(drawn == NO_NODE, -1.0).argmax(dim=1, keepdim=True)
    return drawn.gather(1, winner)[:, 0]
