"""Everything that can be set about a fit, with the defaults of each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from xtcl.errors import UsageError
from xtcl.learning.batch_settings import BatchSettings
from xtcl.learning.trainer import TrainingSettings
from xtcl.sampling.settings import SamplerSettings

PLAIN: dict[str, dict[str, object]] = {"gcn": {"layers": 2, "hops": 1}, "gat": {"layers": 2}}
"""The encoders as their authors have them: two layers. Of the paper's own, nothing is known."""


@dataclass(frozen=True)
class Member:
    """One encoder: the options of its module, how it is trained, its weight beside others.

    A flexible encoder learns wrong positives as readily as right ones. With `caution` its weight
    is multiplied by that power of the share of positives that can be trusted.
    """

    encoder: dict[str, object] = field(default_factory=dict)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    weight: float = 1.0
    caution: float = 0.0

    def trained(self, epochs: int, trust: float) -> Member:
        """What became of it: the epochs it took, and its weight once the trust is known."""
        training = replace(self.training, epochs=epochs)
        return Member(self.encoder, training, self.weight * trust**self.caution)


@dataclass(frozen=True)
class Plan:
    """Encoders trained apart and joined, and the weight of the attributes beside them."""

    members: tuple[Member, ...] = (Member(),)
    attributes: float = 0.0

    def __post_init__(self) -> None:
        if not self.members:
            raise UsageError("A plan needs at least one member.")

    def each(self, change: Callable[[Member], Member]) -> Plan:
        """The plan with every member changed."""
        return replace(self, members=tuple(change(member) for member in self.members))

    def width(self, num_attributes: int) -> int:
        """Columns of the embedding, counting 512 for a member that does not say."""
        kept = 3 * num_attributes if self.attributes else 0
        return kept + sum(int(str(member.encoder.get("width", 512))) for member in self.members)

    @property
    def batch(self) -> BatchSettings:
        """How all members together are embedded: in mini-batches if one of them is."""
        known = [member.training.batch for member in self.members]
        return next((batch for batch in known if batch.neighbours is not None), known[0])

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> Plan:
        """The plan whose `dataclasses.asdict` went through JSON or TOML."""
        members = tuple(
            Member(
                dict(member["encoder"]),
                TrainingSettings.from_plain(member["training"]),
                member["weight"],
                member.get("caution", 0.0),
            )
            for member in stored["members"]
        )
        return cls(members, stored["attributes"])


@dataclass(frozen=True)
class Recipe:
    """From sampler to encoder: one of these describes a fit completely.

    `crossfit` is the number of folds (0: the paper's literal reading), `positives` the paper's B,
    `least_chance` the chance f_u(v) that one of them must have (a node's best needs none), `draws`
    how many of them each node is pulled towards in a step (None: all). For links, a node
    is pulled towards `link_draws` of its neighbours with weight 1 and towards `draws` of its best
    unlinked candidates with weight `candidate_weight`; without `link_draws`, known links are
    candidates like all others.

    Of several `plans` a task that can hide part of what it learns from takes the one that does best
    there, others the first. With `stop_early` the hidden part says how many epochs to train, too.
    Where labels held out of the head are hardly likelier with all that was learned than with less
    of it beside the attributes, the trust in it is multiplied by `doubt` (1: never). Answers of the
    head with a chance above `sure` are labels for a second fit of it (1: never). With `signals`,
    hidden links say how much degrees and relations count beside the embeddings in the score of a
    pair.
    """

    sampler: SamplerSettings = field(default_factory=SamplerSettings)
    crossfit: int = 5
    positives: int = 20
    least_chance: float = 0.0
    draws: int | None = 4
    link_draws: int = 0
    candidate_weight: float = 1.0
    plans: tuple[Plan, ...] = (Plan(),)
    stop_early: bool = False
    doubt: float = 1.0
    sure: float = 1.0
    signals: bool = False

    def __post_init__(self) -> None:
        if not self.plans:
            raise UsageError("A recipe needs at least one plan.")

    def each(self, change: Callable[[Member], Member]) -> Recipe:
        """The recipe with every member of every plan changed."""
        return replace(self, plans=tuple(plan.each(change) for plan in self.plans))

    def checked(self) -> Recipe:
        """The recipe itself, or an error that names the setting that cannot be used."""
        self.sampler.checked()
        for name, least in (("positives", 1), ("draws", 1), ("link_draws", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name}={value} must be at least {least}.")
        if not 0 <= self.least_chance <= 1:
            raise UsageError(f"least_chance={self.least_chance} must be between 0 and 1.")
        if not 0 < self.doubt <= 1:
            raise UsageError(f"doubt={self.doubt} must be above 0 and at most 1.")
        if not 0.5 <= self.sure <= 1:
            raise UsageError(f"sure={self.sure} must be between 0.5 and 1.")
        for plan in self.plans:
            for member in plan.members:
                member.training.checked()
        return self

    def literal(self, encoder: str) -> Recipe:
        """The paper as printed: Algorithm 1, no cross-fitting, Equation 1 with all B positives.

        What stays: a pair is above only where s > 0, a node is not paired with itself, and one that
        is above for no relation is no candidate. The paper names no settings of its encoders, so
        they are two layers of width 512, trained for 100 epochs.
        """
        training = TrainingSettings(epochs=100, anchors=None, similarity="inner", temperature=1.0)
        return Recipe(
            sampler=SamplerSettings.paper(),
            crossfit=0,
            positives=self.positives,
            draws=None,
            plans=(Plan((Member(PLAIN.get(encoder, {}), training),)),),
        )

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> Recipe:
        """The recipe whose `dataclasses.asdict` went through JSON or TOML."""
        try:
            sampler: dict[str, Any] = {"tie_break": None, **stored["sampler"]}
            sampler["quantiles"] = tuple(sampler["quantiles"])
            settings: dict[str, Any] = {
                "sampler": SamplerSettings(**sampler),
                "plans": tuple(Plan.from_plain(plan) for plan in stored["plans"]),
            }
            # TOML has no word for None: what is missing is None.
            return cls(**{"draws": None, **stored, **settings})
        except UsageError:
            raise
        except (KeyError, TypeError, ValueError) as broken:
            what = f"it lacks {broken}" if isinstance(broken, KeyError) else broken
            raise UsageError(f"The recipe cannot be used: {what}.") from broken
