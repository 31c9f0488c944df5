"""One more round: the class probabilities of a first fit become a relation of a second fit.

A first fit that was trained on a node's label reproduces it. So there is a first fit for every fold
of the sampler, from relations to head without the labels of that fold, and one with all labels. The
sampler weighs the new relation on pairs whose two labels the posteriors have not seen, and when
positives are sought a training node has the posterior of the fit that was not trained on its label.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from xtcl.config import FitConfig
from xtcl.errors import UsageError
from xtcl.relations.cosine import cosine_rows
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView
from xtcl.tasks.fit import FitOptions, FittedTask, fit_task
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import TrainingData


@dataclass(frozen=True)
class PosteriorAgreement(Relation):
    r"""Two nodes are alike when a first fit finds the same classes likely for them.

    .. math:: s(u, v) = \cos(p_u, p_v)

    with the class posterior p of fits trained on the labels of the view and no others.
    """

    posteriors: Mapping[bytes, np.ndarray]
    """[V, C], by the labels of the view as bytes."""

    name: ClassVar[str] = "posterior-agreement"
    title: ClassVar[str] = "Posterior"
    reads: ClassVar[frozenset[str]] = frozenset({ATTRIBUTES, LINKS, LABELS})

    def prepare(self, view: TrainingView) -> Rows:
        """The factors are the posteriors."""
        known = view.labels.tobytes()
        if known not in self.posteriors:
            raise UsageError("There is no first fit with the labels of this view; make one.")
        factors = torch.tensor(self.posteriors[known], dtype=torch.float32, device=view.device)
        return cosine_rows(factors)


def held_out_posteriors(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions
) -> dict[bytes, np.ndarray]:
    """Posteriors of first fits for every view that the sampler will ask for.

    In the view of a fold, the labels that are not hidden are in their nodes' own posteriors; no
    pair of such nodes is counted there.
    """
    view = TrainingView.of(side.graph, side.labelled, options.device)
    # The seed that the fit draws its own folds with: they are the same.
    folds = task.folds(view, recipe.crossfit, np.random.default_rng([options.seed, 0]))
    posteriors = {}
    whole = _posterior(side, task, recipe, options, view.labels)
    for fold in folds:
        found = _posterior(side, task, recipe, options, fold.view.labels)
        posteriors[fold.view.labels.tobytes()] = found
        whole[fold.queries] = found[fold.queries]
    posteriors[view.labels.tobytes()] = whole
    return posteriors


def _posterior(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions, labels: np.ndarray
) -> np.ndarray:
    answer = fit_task(TrainingData(side.graph.with_labels(labels)), task, recipe, options).answer
    if not isinstance(answer, NodePredictions):
        raise UsageError("Only node classification has class posteriors.")
    return np.array(answer.probabilities)


def fit_again(side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions) -> FittedTask:
    """A fit whose sampler also knows how first fits agree."""
    agreement = PosteriorAgreement(held_out_posteriors(side, task, recipe, options))
    relations = (*resolve_relations(options.relations), agreement)
    return fit_task(side, task, recipe, replace(options, relations=relations))
