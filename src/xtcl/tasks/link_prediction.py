"""Link prediction: alike means linked."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch

from xtcl.learning.positive_source import PositiveSource
from xtcl.learning.trainer import TrainingSettings
from xtcl.relations.view import TrainingView
from xtcl.sampling.crossfit import link_folds
from xtcl.sampling.fold import Fold
from xtcl.tasks.answers import LinkAnswer
from xtcl.tasks.link_head import LinkHead
from xtcl.tasks.link_scorer_choice import choose_scorer, fit_chosen, hide_links
from xtcl.tasks.recipe import Recipe
from xtcl.tasks.task import Embed, Task
from xtcl.tasks.training_side import TrainingSide

HIDDEN_SHARE = 0.1
"""Share of the training links that the choice of the scorer keeps from a fit of its own."""


class LinkPrediction(Task):
    """I_t(u, v) = 1 where (u, v) is a link; a scorer of pairs; area under the ROC curve."""

    name: ClassVar[str] = "links"
    metric: ClassVar[str] = "auc"

    def recipe(self, encoder: str) -> Recipe:
        """One layer: linear over once smoothed attributes, or attention; some links dropped."""
        options: dict[str, object] = {}
        if encoder in ("gcn", "gat"):
            options = {"width": 512, "dropout": 0.2}
        if encoder == "gcn":
            options |= {"hops": 1}
        return Recipe(
            training=TrainingSettings(weight_decay=0.0, temperature=0.1, link_dropout=0.3),
            encoder_options=options,
            positives=10,
            draws=2,
            link_draws=4,
            candidate_weight=0.3,
        )

    def folds(self, view: TrainingView, folds: int, rng: np.random.Generator) -> list[Fold]:
        """Pairs of linked nodes with all nodes."""
        return link_folds(view, folds, rng)

    def excluded(self, view: TrainingView, recipe: Recipe) -> sp.csr_array | None:
        """Known links, where they are positives outright."""
        return view.adjacency if recipe.link_draws else None

    def sources(
        self, view: TrainingView, positives: np.ndarray, recipe: Recipe
    ) -> list[PositiveSource]:
        """Known links, and the sampler's best candidates among the unlinked."""
        candidates = PositiveSource.from_table(positives, recipe.draws, recipe.candidate_weight)
        if not recipe.link_draws:
            return [candidates]
        return [PositiveSource.from_links(view.adjacency, recipe.link_draws), candidates]

    def fit_head(
        self,
        side: TrainingSide,
        embedding: np.ndarray,
        embed: Embed,
        seed: int,
        device: torch.device,
    ) -> LinkHead:
        """Choose a scorer by links hidden from a whole fit of their own; fit it on all links."""
        links = hide_links(side, HIDDEN_SHARE, seed)
        chosen = choose_scorer(links, embed(links.graph), seed, device=device)
        return fit_chosen(chosen, side, embedding, seed, device=device)

    def answer(self, head: LinkHead, embedding: np.ndarray, num_classes: int) -> LinkAnswer:
        """Scores of pairs."""
        return LinkAnswer(lambda pairs: head.score(embedding, pairs))
