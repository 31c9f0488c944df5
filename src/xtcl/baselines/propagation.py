"""Smoothed attributes under a linear head: what can be had from the graph without training."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from xtcl.baselines.link_rows import judge, leading_axes
from xtcl.baselines.method import Method
from xtcl.graph.graph import Graph
from xtcl.learning.encoders.propagation import Propagation
from xtcl.learning.inputs import encoder_inputs
from xtcl.learning.unit_rows import unit_rows
from xtcl.progress import Progress
from xtcl.tasks.answers import Answer, LinkAnswer, NodeAnswer
from xtcl.tasks.link_prediction import HIDDEN_SHARE
from xtcl.tasks.link_scorer_choice import fit_chosen, hide_links
from xtcl.tasks.logistic_head import fit_logistic
from xtcl.tasks.training_side import TrainingSide

Variant = tuple[int, ...]
"""The powers of the normalised adjacency that stand side by side."""

VARIANTS: tuple[Variant, ...] = ((1,), (2,), (3,), (0, 1, 2))


def smoothed_attributes(graph: Graph, device: torch.device) -> list[Tensor]:
    r""":math:`\hat A^k X` for k = 0 to 3, the rows of X and of each result at unit length.

    Cost O(E D), on the device; memory O(V D).
    """
    x, edge_index = encoder_inputs(graph, device)
    smooth = Propagation(1)
    powers = [x]
    for _ in range(max(max(variant) for variant in VARIANTS)):
        powers.append(smooth(powers[-1], edge_index))
    return [unit_rows(power) for power in powers]


class PropagationMethod(Method):
    r"""Attributes smoothed over the links, under the same heads as every embedding; no training.

    :math:`\hat A^k X` for k = 1, 2 or 3, or for k = 0, 1 and 2 side by side: Wu and others,
    "Simplifying Graph Convolutional Networks", ICML 2019, without their tuning on a validation set.
    Which of them is chosen inside the training side (ties to the first listed), for nodes by
    cross-validated accuracy, for links by AUC on hidden training links that the smoothing has not
    seen either. For nodes that is fair because no label goes into the smoothing.
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
    known, classes = side.labelled, side.labels[side.labelled]
    powers = [power.cpu() for power in smoothed_attributes(side.graph, device)]
    heads = {}
    with progress.stage("choosing how far to smooth", len(VARIANTS)) as advance:
        for variant in VARIANTS:
            rows = side_by_side(powers, variant)[torch.from_numpy(known)]
            heads[variant] = fit_logistic(rows.numpy(), classes, seed=seed, device=device)
            advance(1)
    best = max(VARIANTS, key=lambda variant: heads[variant].cv_accuracy_)
    rows = side_by_side(powers, best)
    return NodeAnswer(heads[best].predict_proba(rows.numpy(), side.graph.num_classes))


def _fit_links(
    side: TrainingSide, seed: int, device: torch.device, progress: Progress
) -> LinkAnswer:
    links = hide_links(side, HIDDEN_SHARE, seed)
    powers = smoothed_attributes(links.graph, device)
    judged = {}
    with progress.stage("choosing how far to smooth", len(VARIANTS)) as advance:
        for variant in VARIANTS:
            judged[variant] = judge(links, _link_rows(powers, variant), seed, device)
            advance(1)
    best = max(VARIANTS, key=lambda variant: judged[variant].auc)
    rows = _link_rows(smoothed_attributes(side.graph, device), best)
    head = fit_chosen(judged[best].head, side, rows, seed, device=device)
    return LinkAnswer(lambda pairs: head.score(rows, pairs))


def side_by_side(powers: list[Tensor], variant: Variant) -> Tensor:
    """The rows of a variant, [V, len(variant) D]."""
    return torch.cat([powers[power] for power in variant], dim=1)


def _link_rows(powers: list[Tensor], variant: Variant) -> np.ndarray:
    return leading_axes(side_by_side(powers, variant))
