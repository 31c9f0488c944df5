r"""A loss in which negatives that may be alike weigh less.

.. math:: \mathcal L(u) = -\frac 1B \sum_b \log \frac{e^{s(u, p_b)}}
          {e^{s(u, p_b)} + \sum_k (1 - f_u(n_k)) \, e^{s(u, n_k)}}

In the spirit of Chuang and others, "Debiased Contrastive Learning", NeurIPS 2020, who have one
probability for all pairs; the sampler has one for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from xtcl.config import FitConfig, Similarity
from xtcl.lab.scripts.ablation_fit import fit_with_loss
from xtcl.nn.functional import normalize
from xtcl.relations.blocks import rows_per_block
from xtcl.relations.rows import DenseRows, all_nodes
from xtcl.sampling.patterns import margin_table
from xtcl.sampling.stumps import sigmoid
from xtcl.sampling.xgsampler import XGSampler
from xtcl.tasks.fit import FitOptions, FittedTask
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import TrainingData


@dataclass(frozen=True)
class DebiasedLoss:
    """Equation 1 with every negative weighted by 1 - f_u(v)."""

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
