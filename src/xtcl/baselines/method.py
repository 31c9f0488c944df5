"""The interface of a compared method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch

from xtcl.config import FitConfig
from xtcl.errors import UsageError
from xtcl.progress import Progress
from xtcl.tasks import Predictions, TrainingData, make_task
from xtcl.tasks.fit import fit_task
from xtcl.tasks.fit_options import FitOptions


class Method(ABC):
    """A method that answers a task from the training data alone: it never gets the test side."""

    name: ClassVar[str]
    """How the command line and result files call it."""
    title: ClassVar[str]
    """How tables and figures call it."""
    tasks: ClassVar[frozenset[str]]

    @abstractmethod
    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Learn from `side`: class probabilities for "nodes", a scorer of pairs for "links"."""

    def check_task(self, task: str) -> None:
        """Refuse a task that this method has no answer to."""
        if task not in self.tasks:
            raise UsageError(
                f"{self.title} has no task '{task}'. It knows: {', '.join(sorted(self.tasks))}."
            )


class XTCLMethod(Method):
    """XTCL with the default recipe of the task, or with another."""

    tasks: ClassVar[frozenset[str]] = frozenset({"nodes", "links"})
    encoder: ClassVar[str]

    def __init__(self, recipe: FitConfig | None = None) -> None:
        self.recipe = recipe

    def fit(
        self,
        side: TrainingData,
        task: str,
        *,
        seed: int,
        device: torch.device,
        progress: Progress,
    ) -> Predictions:
        """Fit embeddings and head."""
        self.check_task(task)
        if task == "nodes":
            _ = side.labels  # refuses a graph without any
        options = self.options(seed=seed, device=device, progress=progress)
        return fit_task(side, make_task(task), self.recipe_for(task), options).answer

    def options(self, **given: Any) -> FitOptions:
        """What a fit takes besides data, task and recipe."""
        return FitOptions(encoder=self.encoder, **given)

    def recipe_for(self, task: str) -> FitConfig:
        """The recipe that a fit for `task` follows."""
        return self.recipe or make_task(task).recipe(self.encoder)


class XTCLGCN(XTCLMethod):
    """XTCL, the method of this package, with graph convolutions."""

    name: ClassVar[str] = "xtcl-gcn"
    title: ClassVar[str] = "XTCL (GCN)"
    encoder: ClassVar[str] = "gcn"


class XTCLGAT(XTCLMethod):
    """XTCL, the method of this package, with graph attention."""

    name: ClassVar[str] = "xtcl-gat"
    title: ClassVar[str] = "XTCL (GAT)"
    encoder: ClassVar[str] = "gat"


class XTCLPaper(XTCLMethod):
    r"""XTCL as the paper prints it, with graph convolutions.

    It is what `XTCL(sampler="paper")` fits.

    .. math:: f_u(v) = \sigma \Big( \sum_r w_{r, [s_r(u, v) \ge \eta_{r,u}]} \Big), \qquad
              \mathcal L(u) = -\frac 1B \sum_{b=1}^B \log \frac{e^{z_u^\top z_{p_b}}}
              {e^{z_u^\top z_{p_b}} + \sum_{k=1}^K e^{z_u^\top z_{n_k}}}

    Lin and Neville, "Improving Node Representation by Boosting Task-Aware Contrastive Loss", 2024:
    Algorithm 1 from 0 in one pass over the pairs of labelled nodes, one threshold a relation, the
    printed relations, Equation 3 with all B positives of equal weight, Equation 1 with the inner
    product, and a logistic regression on the embedding. No cross-fitting, no ensemble, no
    attributes beside the embedding, no second fit of the head, no signals beside the score of a
    link. Cost: that of XTCL; counting is O(L^2 R) for L labelled nodes.

    Printed text does not settle everything. Where it can be read in two ways or leaves a condition
    open, this is `SamplerConfig.paper()`, the same as everywhere in the package: thresholds are
    above 0 (Definition 1, not Definition 5), a node is not paired with itself, and one that is
    above for no relation is no candidate. The other readings are switches (docs/design.md, "The
    paper as printed"). The paper names no settings of its encoders, and no B and K: two layers of
    width 512 and 100 epochs, with the B of our recipe.
    """

    name: ClassVar[str] = "xtcl-paper"
    title: ClassVar[str] = "XTCL as printed (GCN)"
    encoder: ClassVar[str] = "gcn"

    def recipe_for(self, task: str) -> FitConfig:
        """The printed method, or the recipe that was given."""
        return self.recipe or make_task(task).recipe(self.encoder).as_in_paper(self.encoder)


class XTCLPaperGAT(XTCLPaper):
    """XTCL as the paper prints it, with graph attention: two layers as in GAT's own paper."""

    name: ClassVar[str] = "xtcl-paper-gat"
    title: ClassVar[str] = "XTCL as printed (GAT)"
    encoder: ClassVar[str] = "gat"
