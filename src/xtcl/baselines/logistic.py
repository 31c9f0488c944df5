"""Logistic regression on the attributes: the baseline that reads no links."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from xtcl.baselines.method import Method
from xtcl.baselines.propagation import leading_axes
from xtcl.nn.encoder import encoder_inputs
from xtcl.progress import Progress
from xtcl.tasks import LinkScores, NodePredictions, Predictions, TrainingData
from xtcl.tasks.link_prediction import VALIDATION_LINK_SHARE, choose_scorer, fit_chosen, hide_links
from xtcl.tasks.logistic import fit_logistic
from xtcl.tasks.self_training import self_train


class Logistic(Method):
    r"""Linear heads on the attributes: the baseline that reads no links.

    .. math:: p(c \mid u) = \text{softmax}(W x_u + b)_c, \qquad
              s(u, v) \in \Big\{ \frac{x_u^\top x_v}{|x_u| |x_v|}, \; x_u^\top x_v, \;
              w^\top (x_u \odot x_v) \Big\}

    Rows of unit length under the same heads as every embedding. Nodes: logistic regression (Cox,
    "The Regression Analysis of Binary Sequences", Journal of the Royal Statistical Society B 20,
    1958, for many classes), its penalty chosen inside the training labels. Links: cosine, inner
    product or weighted element-wise product, whichever is best on hidden training links, of the
    rows in their 256 leading axes; attributes do not change when links are hidden, so nothing is
    computed twice.

    Cost: for nodes O(n D C) for each step of the solver, with n labelled nodes and C classes, and
    O(V D C) for the answer; for links O(256 V D) for the axes and O(256 n) for each step, with n
    pairs. Memory O(V D).
    """

    name: ClassVar[str] = "logistic"
    title: ClassVar[str] = "Attributes + LR"
    tasks: ClassVar[frozenset[str]] = frozenset({"nodes", "links"})

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Fit the head on the attributes."""
        self.check_task(task)
        x, _ = encoder_inputs(side.graph, device)
        with progress.stage(f"fitting {self.title}", 1) as advance:
            answer = _nodes(side, x, seed) if task == "nodes" else _links(side, x, seed)
            advance(1)
        return answer


def _nodes(side: TrainingData, x: torch.Tensor, seed: int) -> NodePredictions:
    rows = np.asarray(x.cpu().numpy())
    known, classes = side.labelled, side.labels[side.labelled]
    first = fit_logistic(rows[known], classes, seed=seed, device=x.device)
    head = self_train(first, rows, known, classes, seed=seed, device=x.device)
    return NodePredictions(head.predict_proba(rows, side.graph.num_classes, x.device))


def _links(side: TrainingData, x: torch.Tensor, seed: int) -> LinkScores:
    rows = leading_axes(x)
    chosen = choose_scorer(
        hide_links(side, VALIDATION_LINK_SHARE, seed), rows, seed, device=x.device
    )
    head = fit_chosen(chosen, side, rows, seed, device=x.device)
    return LinkScores(lambda pairs: head.score(rows, pairs, x.device))
