"""Fits of the ablation that a recipe cannot describe.

They trust positives in another way, have another loss, or go one more round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from xtcl.config import FitConfig, Similarity
from xtcl.errors import UsageError
from xtcl.nn.functional import normalize
from xtcl.nn.loss import Loss, contrastive_loss
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.cosine import cosine_rows
from xtcl.relations.registry import resolve_relations
from xtcl.relations.relation import Relation, Rows
from xtcl.relations.rows import DenseRows, all_nodes
from xtcl.relations.view import ATTRIBUTES, LABELS, LINKS, TrainingView
from xtcl.sampling.patterns import margin_table
from xtcl.sampling.positives import Positives
from xtcl.sampling.strategies import likely_positives
from xtcl.sampling.stumps import sigmoid
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.fit import FittedTask, fit_task, train_ensemble, with_head
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.results import NodePredictions
from xtcl.tasks.sampled_positives import SampledPositives, fit_sampler, sample_positives
from xtcl.tasks.task import Selected, Task
from xtcl.tasks.training_data import TrainingData


def fit_from(
    found: SampledPositives, side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions
) -> FittedTask:
    """The rest of `fit_task` for a recipe with one plan."""
    (ensemble,) = recipe.ensembles
    fitted = train_ensemble(side.graph, task, recipe, ensemble, found, options)
    return with_head(side, task, recipe, Selected(ensemble), fitted, options)


def fit_with_loss(
    make_loss: Callable[[XGSampler, Positives], Loss],
    side: TrainingData,
    task: Task,
    recipe: FitConfig,
    options: FitOptions,
) -> FittedTask:
    """A fit whose loss knows what the sampler found."""
    sampler = fit_sampler(side.graph, task, recipe, options)
    best = sampler.positives(recipe.positives)
    own = replace(options, loss=make_loss(sampler, best))
    found = SampledPositives(sampler, *likely_positives(best, recipe.min_probability))
    return fit_from(found, side, task, recipe, own)


def fit_in_full_trust(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions
) -> FittedTask:
    """Positives that are likely enough, and trusted as if all candidates had been."""
    found = sample_positives(side.graph, task, recipe, options)
    return fit_from(found._replace(trust=1.0), side, task, recipe, options)


def fit_unfiltered(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions
) -> FittedTask:
    """All candidates for positives, trusted as far as they are likely."""
    found = sample_positives(side.graph, task, recipe, options)
    all_positives = found.sampler.positives(recipe.positives).nodes
    return fit_from(found._replace(positives=all_positives), side, task, recipe, options)


@dataclass(frozen=True)
class DebiasedLoss:
    r"""Equation 1 in which negatives that may be alike weigh less.

    .. math:: \mathcal L(u) = -\frac 1B \sum_b \log \frac{e^{s(u, p_b)}}
              {e^{s(u, p_b)} + \sum_k (1 - f_u(n_k)) \, e^{s(u, n_k)}}

    In the spirit of Chuang and others, "Debiased Contrastive Learning", NeurIPS 2020, who have one
    probability for all pairs; the sampler has one for each.
    """

    chances: Tensor  # float32 [V, V], f; 1 for a node with itself, which is no negative

    def __call__(
        self,
        z: Tensor,
        positives: Tensor,
        negatives: Tensor,
        *,
        anchors: Tensor,
        weights: Tensor,
        similarity: Similarity,
        temperature: float,
    ) -> Tensor:
        """The loss of a step; `negatives` are shared by all anchors."""
        z = normalize(z) if similarity == "cosine" else z
        query = F.embedding(anchors, z) / temperature
        attraction = torch.einsum("nh,nbh->nb", query, F.embedding(positives.clamp_min(0), z))
        unlike = (1 - self.chances[anchors[:, None], negatives]).log()
        repulsion = query @ F.embedding(negatives, z).T + unlike
        terms = F.softplus(torch.logsumexp(repulsion, dim=1, keepdim=True) - attraction)
        share = weights * (positives >= 0)
        total = share.sum(dim=1)
        drawn = total > 0
        return ((share * terms).sum(dim=1)[drawn] / total[drawn]).mean()


def all_chances(sampler: XGSampler) -> Tensor:
    """f_u(v) of all pairs, float32 [V, V]: 1.5 GB for the 20,000 nodes of PubMed."""
    rows = DenseRows(sampler.relations_, sampler.view_, sampler.settings_.quantiles)
    margins = margin_table(sampler.stumps_)
    # As candidates these pairs are out; as negatives they have a chance like all others.
    margins[0] = sampler.stumps_.base + sampler.stumps_.weights[:, 0].sum()
    table = torch.tensor(sigmoid(margins), dtype=torch.float32, device=rows.device)
    blocks = rows.blocks(all_nodes(rows.num_nodes), rows_per_block(rows.num_nodes))
    chances = torch.cat([table[rows.pattern_codes(nodes).int()] for nodes in blocks])
    return chances.fill_diagonal_(1.0)


def fit_debiased(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions
) -> FittedTask:
    """A fit with this loss."""
    return fit_with_loss(
        lambda sampler, found: DebiasedLoss(all_chances(sampler)), side, task, recipe, options
    )


@dataclass(frozen=True)
class ScoreWeightedLoss:
    r"""Equation 1 with the weight of a positive multiplied by its f_u(v).

    .. math:: \mathcal L(u) = -\frac {1} {\sum_b f_u(p_b)} \sum_b f_u(p_b)
              \log \frac{e^{s(u, p_b)}} {e^{s(u, p_b)} + \sum_k e^{s(u, n_k)}}
    """

    nodes: Tensor  # int64 [V, B], the positives of every node
    chances: Tensor  # float32 [V, B], their f; 0 in empty places

    @classmethod
    def of(cls, found: Positives, device: torch.device) -> ScoreWeightedLoss:
        """The loss for what a sampler found."""
        chances = torch.from_numpy(sigmoid(found.scores)).float()
        return cls(torch.from_numpy(found.nodes).to(device), chances.to(device))

    def chance(self, anchors: Tensor, positives: Tensor) -> Tensor:
        """The f of the drawn `positives` [n, d] of `anchors`."""
        drawn = positives[:, :, None] == self.nodes[anchors][:, None, :]
        return (drawn * self.chances[anchors][:, None, :]).sum(dim=2)

    def __call__(
        self,
        z: Tensor,
        positives: Tensor,
        negatives: Tensor,
        *,
        anchors: Tensor,
        weights: Tensor,
        similarity: Similarity,
        temperature: float,
    ) -> Tensor:
        """The loss of a step."""
        return contrastive_loss(
            z,
            positives,
            negatives,
            anchors=anchors,
            weights=weights * self.chance(anchors, positives),
            similarity=similarity,
            temperature=temperature,
        )


def fit_weighted(
    side: TrainingData, task: Task, recipe: FitConfig, options: FitOptions
) -> FittedTask:
    """A fit with this loss."""
    return fit_with_loss(
        lambda sampler, found: ScoreWeightedLoss.of(found, options.device),
        side,
        task,
        recipe,
        options,
    )


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
    """One more round: the class probabilities of first fits become a relation of a second fit.

    A first fit that was trained on a node's label reproduces it. So there is a first fit for every
    fold of the sampler, from relations to head without the labels of that fold, and one with all
    labels. The sampler weighs the new relation on pairs whose two labels the posteriors have not
    seen, and when positives are sought a training node has the posterior of the fit that was not
    trained on its label.
    """
    agreement = PosteriorAgreement(held_out_posteriors(side, task, recipe, options))
    relations = (*resolve_relations(options.relations), agreement)
    return fit_task(side, task, recipe, replace(options, relations=relations))
