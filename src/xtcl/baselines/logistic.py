"""Logistic regression on the attributes: what can be had without any graph."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from xtcl.baselines.link_rows import LinkRows, answer_links
from xtcl.baselines.method import Method
from xtcl.learning.inputs import encoder_inputs
from xtcl.progress import Progress
from xtcl.tasks.answers import Answer, NodeAnswer
from xtcl.tasks.link_prediction import HIDDEN_SHARE
from xtcl.tasks.link_scorer_choice import hide_links
from xtcl.tasks.logistic_head import fit_logistic
from xtcl.tasks.training_side import TrainingSide


class Logistic(Method):
    """Attribute rows of unit length under the same heads as every embedding.

    Nodes: logistic regression, its penalty chosen inside the training labels. Links: cosine, inner
    product or weighted element-wise product, whichever is best on hidden training links; attributes
    do not change when links are hidden, so nothing is fitted twice.
    """

    name: ClassVar[str] = "logistic"
    title: ClassVar[str] = "Attributes + LR"
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
        """Fit the head on the attributes."""
        self.check_task(task)
        rows = np.asarray(encoder_inputs(side.graph, device)[0].cpu().numpy())
        if task == "nodes":
            head = fit_logistic(rows[side.labelled], side.labels[side.labelled], seed=seed)
            return NodeAnswer(head.predict_proba(rows, side.graph.num_classes))
        links = hide_links(side, HIDDEN_SHARE, seed)
        return answer_links(LinkRows.judged(links, rows, seed).head, side, rows, seed)
