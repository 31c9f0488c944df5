"""Link prediction: alike means linked."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xtcl.errors import UsageError
from xtcl.learning.positive_source import PositiveSource
from xtcl.learning.trainer import TrainingSettings
from xtcl.relations.view import TrainingView
from xtcl.sampling.crossfit import link_folds
from xtcl.sampling.fold import Fold
from xtcl.tasks.answers import LinkAnswer
from xtcl.tasks.choice import Choice, Trial
from xtcl.tasks.fitted import FittedEmbedding
from xtcl.tasks.link_scorer_choice import choose_scorer, cosine_judge, fit_chosen, hide_links
from xtcl.tasks.link_signals import SignalHead
from xtcl.tasks.recipe import Member, Plan, Recipe
from xtcl.tasks.task import Task
from xtcl.tasks.training_side import TrainingSide

HIDDEN_SHARE = 0.1
"""Share of the training links that the choice of plan and scorer keeps from fits of their own."""

GENTLE = TrainingSettings(
    epochs=30,
    anchors=None,
    learning_rate=2e-3,
    weight_decay=0.0,
    temperature=0.1,
    link_dropout=0.5,
)
SHARP = replace(GENTLE, epochs=150, temperature=0.05, link_dropout=0.3)
PLANS = {
    "gcn": (
        Plan((Member({"width": 512, "hops": 1, "dropout": 0.7}, GENTLE),)),
        Plan((Member({"width": 512, "hops": 1, "dropout": 0.2, "layers": 2}, SHARP),)),
    ),
    "gat": (
        Plan((Member({"width": 512, "dropout": 0.7}, replace(GENTLE, learning_rate=4e-3)),)),
        Plan((Member({"width": 512, "dropout": 0.2}, SHARP),)),
    ),
}


class LinkPrediction(Task):
    """I_t(u, v) = 1 where (u, v) is a link; signals of pairs; area under the ROC curve."""

    name: ClassVar[str] = "links"
    metric: ClassVar[str] = "auc"

    def recipe(self, encoder: str) -> Recipe:
        """One layer trained gently, or a sharper loss and longer training: hidden links will tell.

        Sparse graphs want the first and lose up to a point with the second; dense ones gain a tenth
        or two with it. docs/accuracy.md has the figures.
        """
        return Recipe(
            positives=10,
            draws=2,
            link_draws=4,
            candidate_weight=0.3,
            plans=PLANS.get(encoder, (Plan((Member({}, GENTLE),)),)),
            stop_early=True,
            signals=True,
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

    def choose(
        self, side: TrainingSide, recipe: Recipe, trial: Trial, seed: int, device: torch.device
    ) -> Choice:
        """Plan, epochs and scorer with the best AUC on links hidden from relations to head."""
        links = hide_links(side, HIDDEN_SHARE, seed)
        judge = cosine_judge(links, device) if recipe.stop_early else None
        train = trial(links.graph)

        choices, verdicts = [], [float("-inf")]
        for plan in recipe.plans:
            tried = train(plan, judge, max(verdicts))
            scorer = choose_scorer(links, tried.embedding, seed)
            choices.append((links.judge(scorer, tried.embedding), tried, scorer))
            verdicts.append(tried.verdict)
        # max keeps the first of equals, and the plan listed first is the usual one.
        _, best, scorer = max(choices, key=lambda choice: choice[0])
        if not recipe.signals:
            return Choice(best.plan, SignalHead.of(scorer))
        return Choice(best.plan, SignalHead.fit(best, scorer, *links.hidden, seed=seed))

    def fit_head(
        self,
        side: TrainingSide,
        embedding: Tensor,
        choice: Choice,
        seed: int,
    ) -> SignalHead:
        """The chosen scorer, fitted on all links, with the weights that hidden links gave."""
        if choice.scorer is None:
            raise UsageError("Link prediction chooses a scorer before its head is fitted.")
        scorer = fit_chosen(choice.scorer.scorer, side, embedding, seed)
        return choice.scorer.around(scorer)

    def answer(self, head: SignalHead, fitted: FittedEmbedding, num_classes: int) -> LinkAnswer:
        """Scores of pairs."""
        return LinkAnswer(lambda pairs: head.score(fitted, pairs))
