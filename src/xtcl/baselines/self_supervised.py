"""What the self-supervised systems share: embeddings that no label has touched, under our heads."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch

from xtcl.baselines.method import Method
from xtcl.graph.graph import Graph
from xtcl.progress import Progress
from xtcl.tasks.answers import Answer, LinkAnswer, NodeAnswer
from xtcl.tasks.link_prediction import HIDDEN_SHARE
from xtcl.tasks.link_scorer_choice import choose_scorer, fit_chosen, hide_links
from xtcl.tasks.logistic_head import fit_logistic
from xtcl.tasks.second_fit import second_fit
from xtcl.tasks.training_side import TrainingSide


class SelfSupervised(Method):
    """Embeds a graph without its labels; the heads are those of XTCL itself.

    So a table compares embeddings, not the probes that each author happened to use. For links the
    scorer is chosen by training links that a first embedding has not seen, and fitted on a second
    one that has: the price is that a system is trained twice.
    """

    tasks: ClassVar[frozenset[str]] = frozenset({"nodes", "links"})

    @abstractmethod
    def embed(
        self, graph: Graph, *, seed: int, device: torch.device, progress: Progress
    ) -> np.ndarray:
        """Rows [V, h] for the nodes of a graph that has no labels."""

    def fit(
        self,
        side: TrainingSide,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Answer:
        """Embed, and fit the head of the task."""
        self.check_task(task)

        def rows_of(graph: Graph) -> np.ndarray:
            bare = replace(graph, labels=None, classes=())
            return self.embed(bare, seed=seed, device=device, progress=progress)

        if task == "nodes":
            known, classes = side.labelled, side.labels[side.labelled]
            rows = rows_of(side.graph)
            first = fit_logistic(rows[known], classes, seed=seed, device=device)
            head = second_fit(first, rows, known, classes, seed=seed, device=device)
            return NodeAnswer(head.predict_proba(rows, side.graph.num_classes, device))
        links = hide_links(side, HIDDEN_SHARE, seed)
        chosen = choose_scorer(links, rows_of(links.graph), seed, device=device)
        rows = rows_of(side.graph)
        scorer = fit_chosen(chosen, side, rows, seed, device=device)
        return LinkAnswer(lambda pairs: scorer.score(rows, pairs, device))
