"""Everything that can be set about a fit, with the defaults of each task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xtcl.learning.trainer import TrainingSettings
from xtcl.sampling.settings import SamplerSettings


@dataclass(frozen=True)
class Recipe:
    """From sampler to encoder: one of these describes a fit completely.

    `crossfit` is the number of folds (0: the paper's literal reading), `positives` the paper's B,
    `draws` how many of them each node is pulled towards in an epoch (None: all). For links, a node
    is pulled towards `link_draws` of its neighbours with weight 1 and towards `draws` of its best
    unlinked candidates with weight `candidate_weight`; without `link_draws`, known links are
    candidates like all others.
    """

    sampler: SamplerSettings = field(default_factory=SamplerSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    encoder_options: dict[str, object] = field(default_factory=dict)
    crossfit: int = 5
    positives: int = 20
    draws: int | None = 4
    link_draws: int = 0
    candidate_weight: float = 1.0

    def literal(self) -> Recipe:
        """The paper as printed: Algorithm 1, no cross-fitting, Equation 1 with all B positives.

        What stays: a pair is above only where s > 0, a node is not paired with itself, and one that
        is above for no relation is no candidate. The paper names no encoder settings, so those of
        the recipe stay too.
        """
        plain = replace(self.training, similarity="inner", temperature=1.0, link_dropout=0.0)
        return replace(
            self,
            sampler=SamplerSettings.paper(),
            crossfit=0,
            training=plain,
            draws=None,
            link_draws=0,
            candidate_weight=1.0,
        )
