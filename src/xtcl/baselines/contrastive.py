"""SSCL, the quick control of `fit --compare all`, and the base of all contrastive losses compared.

The others are in `xtcl.lab.methods.contrastive`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from xtcl.baselines.method import XTCLMethod
from xtcl.config import FIXED_RULES, FitConfig
from xtcl.progress import Advance, Progress
from xtcl.sampling.strategies import PositiveStrategy, make_strategy
from xtcl.tasks import make_task
from xtcl.tasks.fit_options import FitOptions


class Contrastive(XTCLMethod):
    r"""XTCL with a GCN, and with positives by the strategy of the subclass.

    .. math:: \mathcal L(u) = -\frac 1B \sum_{b=1}^B \log \frac{e^{s(u, p_b)}}
              {e^{s(u, p_b)} + \sum_{k=1}^K e^{s(u, n_k)}}

    Lin and Neville, "Improving Node Representation by Boosting Task-Aware Contrastive Loss", 2024,
    Sections 2 and 4.2, compare such losses, and publish them as a figure without numbers or
    settings. Here encoders, their training, the number of positives, negatives, the attributes
    beside the embedding and the head are those of XTCL's recipe of 2026-11, which chooses among no
    strategies, by the same code, so that only :math:`p_b` (`xtcl.sampling.strategies`) tells the
    systems apart. One thing has to differ: only XTCL's sampler can say how far its positives are to
    be trusted, so those of the others are trusted in full. The sampler is fitted all the same, for
    the account of the relations.

    Test accuracy on trial splits, which no reported figure uses (Cora: seeds 1000 and 1001,
    CiteSeer: 1000), and the share of positives with the class of their node at seed 1000:

    ===========  =====  ========  ==============  =================
    system       Cora   CiteSeer  right on Cora   right on CiteSeer
    ===========  =====  ========  ==============  =================
    SSCL         85.80  73.28     66.1            56.9
    SCL          84.51  71.24     100             100
    Naive TCL    85.87  72.51                     61.3
    Ceiling SCL  90.65  82.23     100             100
    XTCL (GCN)   85.74  73.61
    ===========  =====  ========  ==============  =================

    SCL has a tenth of the anchors. Two splits cannot tell SSCL, Naive TCL and XTCL apart on Cora.
    """

    tasks: ClassVar[frozenset[str]] = frozenset({"nodes"})
    encoder: ClassVar[str] = "gcn"
    positives: ClassVar[str]
    """The name of the strategy."""

    def strategy(self) -> PositiveStrategy:
        """How positives are chosen."""
        return make_strategy(self.positives)

    def recipe_for(self, task: str) -> FitConfig:
        """XTCL's recipe of 2026-11, or the one that was given, with the strategy in it."""
        recipe = self.recipe or make_task(task).named_recipe(FIXED_RULES, self.encoder)
        return recipe.with_strategy(self.positives, learns=False)

    def options(self, **given: Any) -> FitOptions:
        """Those of XTCL, with the strategy; progress says whose work it is."""
        options = super().options(**given)
        progress = _Naming(options.progress, self.title)
        return replace(options, strategy=self.strategy(), progress=progress)


class _Naming(Progress):
    """Progress whose stages have the name of the method."""

    def __init__(self, listener: Progress, title: str) -> None:
        self.listener = listener
        self.title = title

    @contextmanager
    def stage(self, name: str, steps: int) -> Iterator[Advance]:
        named = f"{name} {self.title}" if name == "training" else name
        with self.listener.stage(named, steps) as advance:
            yield advance


class SSCL(Contrastive):
    """XTCL without labels: uniform positives over the relations that read none (Definition 1)."""

    name: ClassVar[str] = "sscl"
    title: ClassVar[str] = "SSCL"
    positives: ClassVar[str] = "uniform"
