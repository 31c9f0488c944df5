"""Smoothed attributes under a linear head: what can be had from the graph without training."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from xtcl.baselines.link_rows import LinkRows, answer_links
from xtcl.baselines.method import Method
from xtcl.graph.graph import Graph
from xtcl.learning.encoders.propagation import Propagation
from xtcl.learning.inputs import encoder_inputs
from xtcl.progress import Progress
from xtcl.tasks.answers import Answer, LinkAnswer, NodeAnswer
from xtcl.tasks.link_prediction import HIDDEN_SHARE
from xtcl.tasks.link_scorer_choice import hide_links
from xtcl.tasks.logistic_head import fit_logistic
from xtcl.tasks.training_side import TrainingSide

VARIANTS: tuple[tuple[int, ...], ...] = ((1,), (2,), (3,), (0, 1, 2))
"""Which powers of the normalised adjacency stand side by side."""


def smoothed_attributes(graph: Graph, hops: int, device: torch.device) -> list[np.ndarray]:
    r""":math:`\hat A^k X` for k = 0 to `hops`, rows of X and of each result at unit length.

    Cost O(hops E D), on the device; memory (hops + 1) V D.
    """
    x, edge_index = encoder_inputs(graph, device)
    once = Propagation(1)
    powers = [x]
    for _ in range(hops):
        powers.append(once(powers[-1], edge_index))
    return [np.asarray(F.normalize(power).cpu().numpy()) for power in powers]


class PropagationMethod(Method):
    r"""Logistic regression, or a scorer of pairs, on :math:`\hat A^k X` for k = 1, 2, 3 or 0 to 2.

    Wu and others, "Simplifying Graph Convolutional Networks", ICML 2019, without their tuning on a
    validation set: which k is chosen inside the training side (ties to the first listed), for nodes
    by cross-validated accuracy, for links by AUC on hidden training links that the smoothing has
    not seen either. For nodes that is fair because no label goes into the smoothing.
    """

    name: ClassVar[str] = "propagation"
    title: ClassVar[str] = "Propagation + LR"
    tasks: ClassVar[frozenset[str]] = frozenset({"nodes", "links"})

    def fit(
        self,
        side: TrainingSide,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Answer:
        """Smooth, choose, fit the head."""
        self.check_task(task)
        fit = _fit_nodes if task == "nodes" else _fit_links
        return fit(side, seed, device, progress)


def _fit_nodes(
    side: TrainingSide, seed: int, device: torch.device, progress: Progress
) -> NodeAnswer:
    powers = smoothed_attributes(side.graph, 3, device)
    known, classes = side.labelled, side.labels[side.labelled]
    heads = {}
    with progress.stage("choosing how far to smooth", len(VARIANTS)) as advance:
        for variant in VARIANTS:
            heads[variant] = fit_logistic(_rows(powers, variant)[known], classes, seed=seed)
            advance(1)
    best = max(VARIANTS, key=lambda variant: heads[variant].cv_accuracy_)
    found = heads[best].predict_proba(_rows(powers, best), side.graph.num_classes)
    return NodeAnswer(found)


def _fit_links(
    side: TrainingSide, seed: int, device: torch.device, progress: Progress
) -> LinkAnswer:
    links = hide_links(side, HIDDEN_SHARE, seed)
    powers = smoothed_attributes(links.graph, 3, device)
    judged = {}
    with progress.stage("choosing how far to smooth", len(VARIANTS)) as advance:
        for variant in VARIANTS:
            judged[variant] = LinkRows.judged(links, _rows(powers, variant), seed)
            advance(1)
    best = max(VARIANTS, key=lambda variant: judged[variant].auc)
    rows = _rows(smoothed_attributes(side.graph, max(best), device), best)
    return answer_links(judged[best].head, side, rows, seed)


def _rows(powers: list[np.ndarray], variant: tuple[int, ...]) -> np.ndarray:
    return np.hstack([powers[power] for power in variant])
