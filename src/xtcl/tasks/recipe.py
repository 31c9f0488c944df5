"""Everything that can be set about a fit, with the defaults of each task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xtcl.learning.trainer import TrainingSettings
from xtcl.sampling.xgsampler import SamplerSettings


@dataclass(frozen=True)
class Recipe:
    """From sampler to encoder: one of these describes a fit completely.

    `crossfit` is the number of folds (0: the paper's literal reading), `positives` the paper's B,
    `draws` how many of them each node is pulled towards in an epoch. For links, a node is pulled
    towards `link_draws` of its neighbours with weight 1 and towards `draws` of its best unlinked
    candidates with weight `candidate_weight`.
    """

    sampler: SamplerSettings = field(default_factory=SamplerSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    encoder_options: dict[str, object] = field(default_factory=dict)
    crossfit: int = 5
    positives: int = 20
    draws: int = 4
    link_draws: int = 0
    candidate_weight: float = 1.0

    def literal(self) -> Recipe:
        """The paper to the letter: Algorithm 1, no cross-fitting, Equation 1 as printed."""
        plain = replace(self.training, similarity="inner", temperature=1.0)
        return replace(self, sampler=SamplerSettings.paper(), crossfit=0, training=plain)
