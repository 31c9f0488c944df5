"""SubGraph (BUDDY): links from the overlap of two neighbourhoods and from smoothed attributes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xtcl.baselines.ball_counts import ball_overlaps, ring_counts
from xtcl.baselines.method import Method
from xtcl.baselines.subgraph_network import PairInputs, SubGraphSettings, log_odds, train_pairs
from xtcl.errors import DataError
from xtcl.graph.graph import Graph
from xtcl.learning.encoders.propagation import Propagation
from xtcl.learning.inputs import encoder_inputs
from xtcl.progress import Progress
from xtcl.tasks.answers import LinkAnswer
from xtcl.tasks.pair_features import checked_pairs
from xtcl.tasks.training_side import TrainingSide

USUAL = SubGraphSettings()
SETTINGS = {"pubmed": SubGraphSettings(hops=3, epochs=2)}
"""By the name of the graph; every other one gets the usual settings."""


class SubGraph(Method):
    r"""A small network that scores a pair by its attributes and by how many nodes are near both.

    :math:`f_{uv}` has the numbers of nodes i links from u and j from v, for i and j up to `hops` or
    beyond; :math:`\tilde X = \hat A X`; see `PairNetwork`. Chamberlain and others, "Graph Neural
    Networks for Link Prediction with Subgraph Sketching", ICLR 2023 (BUDDY). Cost: that of
    `ball_overlaps` once, and O(n h (D + h)) an epoch of n pairs.

    Otherwise than published:

    - Counts are exact, not estimated from sketches, and each is what its name says.
    - A training link is left out of the graph for its own counts. Otherwise the ends of every link
      seen in training lie in each other's balls, and those of no link to be predicted do.
    - Nodes next to one end and out of reach of the other are counted too. The published code leaves
      them out, which on hidden links of CiteSeer (see below) loses half a point.
    - Counts go in as log(1 + count), as they span four orders of magnitude: hidden links gain .1 to
      .6 points.
    - A pair's score does not depend on the order of its ends: see `ring_counts`.

    As published, non-links are the given ones, so that all is counted once, and the link stays in
    the smoothing: leaving it out there too gains nothing on Cora and loses a point on CiteSeer.

    Learning rate, width and dropout were chosen between the published ones (.0001, 1024, .5) and
    those of Li and others, "Evaluating Graph Neural Networks for Link Prediction: Current Pitfalls
    and New Benchmarking", NeurIPS 2023 (.01 or .001, 256, .1 or .3), by AUC on training links that
    the whole fit has not seen. On trial splits, which no reported figure uses (seeds 1000 and 1001,
    or 1000 alone where marked), with the best number of epochs in brackets:

    ==================================  ==========  ==========
    learning rate, width, dropout       Cora        CiteSeer
    ==================================  ==========  ==========
    these: .001, 256, .5                94.29 (8)   94.21 (12)
    .01, 256, .1, weight decay .0001    93.54 (6)   94.59 (8)
    .01, 256, .5                        93.21 (4)   94.40 (6)
    .001, 256, .3 (1000)                93.56 (10)  93.13 (10)
    published, plain counts (1000)      91.94 (25)  88.93 (25)
    ==================================  ==========  ==========

    The last was cut at 25 epochs and still rose; the others fall again, by up to a point within
    ten epochs more. PubMed (1000) has 97.55 after two epochs with three hops and 97.33 after one
    with two, and falls from there; Photo (1000) has 98.68 after four and still rises.

    Test AUC on the trial splits (1000 and 1001) is 93.8 on Cora and 94.1 on CiteSeer; with training
    links left in their own counts it is 93.7 and 94.1.
    """

    name: ClassVar[str] = "subgraph"
    title: ClassVar[str] = "SubGraph"
    tasks: ClassVar[frozenset[str]] = frozenset({"links"})

    def __init__(self, settings: SubGraphSettings | None = None) -> None:
        """`settings` instead of those of the graph."""
        self.settings = settings

    def fit(
        self,
        side: TrainingSide,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> LinkAnswer:
        """Smooth, count and train."""
        self.check_task(task)
        graph, non_links = side.graph, side.negatives
        if not (graph.num_edges and non_links.size):
            raise DataError(f"Graph '{graph.name}' has no training link or non-link to learn from.")
        settings = self.settings or SETTINGS.get(graph.name, USUAL)
        smoothed = Propagation(1)(*encoder_inputs(graph, device))

        def inputs_of(pairs: np.ndarray) -> PairInputs:
            ends = torch.from_numpy(np.array(pairs)).to(device)
            return PairInputs(ends, log_counts(graph, pairs, settings.hops, device), smoothed)

        with progress.stage("counting neighbours of pairs", 1) as advance:
            inputs = inputs_of(np.hstack([graph.edges, non_links]))
            advance(1)
        targets = torch.zeros(len(inputs), device=device)
        targets[: graph.num_edges] = 1.0
        epochs = settings.rounds(len(inputs))
        with progress.stage(f"training {self.title}", epochs) as advance:
            network, _ = train_pairs(inputs, targets, settings, seed=seed, on_epoch=advance)

        def score(pairs: np.ndarray) -> np.ndarray:
            found = log_odds(network, inputs_of(checked_pairs(pairs, graph.num_nodes)))
            return np.asarray(found.double().cpu().numpy())

        return LinkAnswer(score)


def log_counts(graph: Graph, pairs: np.ndarray, hops: int, device: torch.device) -> Tensor:
    """log(1 + count) of the `ring_counts` of pairs [2, n], float32 [n, c]."""
    return ring_counts(ball_overlaps(graph, pairs, hops, device)).float().log1p()
