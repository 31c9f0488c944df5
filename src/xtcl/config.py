"""Whether a training step passes over the whole graph, or over what its own nodes need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np

from xtcl.errors import UsageError
from xtcl.relations.registry import make_relation
from xtcl.relations.thresholds import PAPER_QUANTILES, check_quantiles


@dataclass(frozen=True)
class BatchConfig:
    """How the steps are made.

    `neighbours` is None for the full graph in every step. Else a step's sub-graph grows from its
    anchors, their positives and its negatives: entry l says how many neighbours a node l links
    away draws (None: all). An encoder that looks less far leaves the last entries out; one that
    smooths attributes and no more needs none, `()`. How many seeds a step has is up to
    `TrainingConfig.anchors`. The final embedding is then made layer by
    layer, with about `block` nodes and links at a time.
    """

    neighbours: tuple[int | None, ...] | None = None
    block: int = 2**18

    def checked(self) -> BatchConfig:
        """These settings, or an error that names the one that cannot be used."""
        for most in self.neighbours or ():
            if most is not None and not most >= 1:
                raise UsageError(f"neighbours={self.neighbours} must be at least 1 each.")
        if not self.block >= 1:
            raise UsageError(f"block={self.block} must be at least 1.")
        return self

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> BatchConfig:
        """The settings whose `dataclasses.asdict` went through JSON or TOML."""
        settings = dict(stored)
        if settings.get("neighbours") is not None:
            known = (None if most == "none" else most for most in settings["neighbours"])
            settings["neighbours"] = tuple(known)
        return cls(**settings)


@dataclass(frozen=True)
class SamplerConfig:
    """How the stumps are fitted. `SamplerConfig.paper()` is Algorithm 1 as printed.

    With `base_score="prior"` the fit starts from the log-odds of a match, steps may not overshoot,
    and constants are kept out of the weights; with a number it starts there, and steps and weights
    stay as they come. Every relation starts with `prior_pairs` of its own, half of them alike
    (`with_prior`), for tasks whose matches are not rare: with few labels most relations are above
    for no counted pair, and would weigh nothing.

    `cap` is top-k mode: of each row's above set only the `cap` best stay, and a fit takes time and
    memory in proportion to V cap (docs/top-k.md). Where more than `index_past` nodes have different
    attributes, an index of FAISS finds most of them; without it, attributes are searched exactly.
    """

    quantiles: tuple[float, ...] = PAPER_QUANTILES
    base_score: float | str = "prior"
    sweeps: int = 30
    penalty: float = 1.0
    prior_pairs: int = 0
    tie_break: str | None = "attribute-distribution"
    cap: int | None = None
    index_past: int | None = None

    @classmethod
    def paper(cls) -> SamplerConfig:
        """One threshold, start from 0 with nothing believed, one pass, ties by chance."""
        return cls(PAPER_QUANTILES, base_score=0.0, sweeps=1, prior_pairs=0, tie_break=None)

    def checked(self) -> SamplerConfig:
        """These settings, or an error that names the one that cannot be used."""
        check_quantiles(self.quantiles)
        if isinstance(self.base_score, str):
            if self.base_score != "prior":
                raise UsageError(f"base_score='{self.base_score}' must be 'prior' or a number.")
        elif not math.isfinite(self.base_score):
            raise UsageError(f"base_score={self.base_score} must be 'prior' or a finite number.")
        if self.sweeps < 1:
            raise UsageError(f"sweeps={self.sweeps} must be at least 1.")
        if not self.penalty >= 0:
            raise UsageError(f"penalty={self.penalty} must not be negative.")
        if self.prior_pairs < 0:
            raise UsageError(f"prior_pairs={self.prior_pairs} must not be negative.")
        if self.tie_break is not None:
            make_relation(self.tie_break)
        for name, least in (("cap", 1), ("index_past", 0)):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Integral) or value < least):
                raise UsageError(
                    f"{name}={value} must be a whole number of at least {least}, or None."
                )
        if self.index_past is not None and self.cap is None:
            raise UsageError(
                f"index_past={self.index_past} is for top-k mode: give a cap, such as 32, too."
            )
        return self


def to_builtin(value: Any) -> Any:
    """`value` without NumPy's kinds, which a search over parameters gives, and without tuples."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, dict):
        return {name: to_builtin(entry) for name, entry in value.items()}
    return [to_builtin(entry) for entry in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class TrainingConfig:
    """How an encoder is trained.

    In an epoch every node is an anchor once, in steps of about `anchors` nodes (None: one step), so
    that larger graphs take more steps; of more than `epoch_anchors` nodes (None: any number) so
    many are drawn for each epoch, and no more steps are taken. `negatives` random nodes are drawn
    each step and shared by its anchors. `link_dropout` is the share of links left out of message
    passing in a step; they stay positives. `batch` says how much of the graph a step passes over.
    """

    epochs: int = 12
    anchors: int | None = 4096
    epoch_anchors: int | None = None
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    negatives: int = 512
    similarity: Similarity = "cosine"
    temperature: float = 0.5
    link_dropout: float = 0.0
    batch: BatchConfig = field(default_factory=BatchConfig)

    def checked(self) -> TrainingConfig:
        """These settings, or an error that names the one that cannot be used."""
        counts = {"epochs": self.epochs, "negatives": self.negatives}
        for name in ("anchors", "epoch_anchors"):
            if getattr(self, name) is not None:
                counts[name] = getattr(self, name)
        for name, value in counts.items():
            if not value >= 1:
                raise UsageError(f"{name}={value} must be at least 1.")
        for name in ("learning_rate", "temperature"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)} must be above 0.")
        if not self.weight_decay >= 0:
            raise UsageError(f"weight_decay={self.weight_decay} must not be below 0.")
        if not 0 <= self.link_dropout < 1:
            raise UsageError(f"link_dropout={self.link_dropout} must be in [0, 1).")
        if self.similarity not in ("cosine", "inner"):
            raise UsageError(f"similarity='{self.similarity}' must be 'cosine' or 'inner'.")
        self.batch.checked()
        return self

    def drawn(self, num_nodes: int) -> int:
        """Anchors of an epoch on a graph of this size."""
        return num_nodes if self.epoch_anchors is None else min(num_nodes, self.epoch_anchors)

    def steps(self, num_nodes: int) -> int:
        """Steps of an epoch on a graph of this size."""
        return 1 if self.anchors is None else max(1, round(self.drawn(num_nodes) / self.anchors))

    def step_anchors(self, num_nodes: int) -> int:
        """Anchors of a step, at most, on a graph of this size."""
        return -(-self.drawn(num_nodes) // self.steps(num_nodes))

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> TrainingConfig:
        """The settings whose `dataclasses.asdict` went through JSON or TOML."""
        batch = BatchConfig.from_plain(stored.get("batch", {}))
        # TOML has no word for None: what is missing is None.
        return cls(**{"anchors": None, "epoch_anchors": None, **stored, "batch": batch})


PAPER_ENCODERS: dict[str, dict[str, object]] = {
    "gcn": {"layers": 2, "hops": 1},
    "gat": {"layers": 2},
}
"""The encoders as their authors have them: two layers. Of the paper's own, nothing is known."""


@dataclass(frozen=True)
class EncoderConfig:
    """One encoder: the options of its module, how it is trained, its weight beside others.

    A flexible encoder learns wrong positives as readily as right ones. With `caution` its weight
    is multiplied by that power of the share of positives that can be trusted.
    """

    encoder: dict[str, object] = field(default_factory=dict)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    weight: float = 1.0
    caution: float = 0.0

    def trained(self, epochs: int, trust: float) -> EncoderConfig:
        """What became of it: the epochs it took, and its weight once the trust is known."""
        training = replace(self.training, epochs=epochs)
        return EncoderConfig(self.encoder, training, self.weight * trust**self.caution)


@dataclass(frozen=True)
class EnsembleConfig:
    """Encoders trained apart and joined, and the weight of the attributes beside them."""

    members: tuple[EncoderConfig, ...] = (EncoderConfig(),)
    attributes: float = 0.0

    def __post_init__(self) -> None:
        if not self.members:
            raise UsageError("A plan needs at least one member.")

    def each(self, change: Callable[[EncoderConfig], EncoderConfig]) -> EnsembleConfig:
        """The plan with every member changed."""
        return replace(self, members=tuple(change(member) for member in self.members))

    def width(self, num_attributes: int) -> int:
        """Columns of the embedding, counting 512 for a member that does not say."""
        kept = 3 * num_attributes if self.attributes else 0
        return kept + sum(int(str(member.encoder.get("width", 512))) for member in self.members)

    @property
    def batch(self) -> BatchConfig:
        """How all members together are embedded: in mini-batches if one of them is."""
        known = [member.training.batch for member in self.members]
        return next((batch for batch in known if batch.neighbours is not None), known[0])

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> EnsembleConfig:
        """The plan whose `dataclasses.asdict` went through JSON or TOML."""
        members = tuple(
            EncoderConfig(
                dict(member["encoder"]),
                TrainingConfig.from_plain(member["training"]),
                member["weight"],
                member.get("caution", 0.0),
            )
            for member in stored["members"]
        )
        return cls(members, stored["attributes"])


@dataclass(frozen=True)
class FitConfig:
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

    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    crossfit: int = 5
    positives: int = 20
    least_chance: float = 0.0
    draws: int | None = 4
    link_draws: int = 0
    candidate_weight: float = 1.0
    plans: tuple[EnsembleConfig, ...] = (EnsembleConfig(),)
    stop_early: bool = False
    doubt: float = 1.0
    sure: float = 1.0
    signals: bool = False

    def __post_init__(self) -> None:
        if not self.plans:
            raise UsageError("A recipe needs at least one plan.")

    def each(self, change: Callable[[EncoderConfig], EncoderConfig]) -> FitConfig:
        """The recipe with every member of every plan changed."""
        return replace(self, plans=tuple(plan.each(change) for plan in self.plans))

    def checked(self) -> FitConfig:
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

    def literal(self, encoder: str) -> FitConfig:
        """The paper as printed: Algorithm 1, no cross-fitting, Equation 1 with all B positives.

        What stays: a pair is above only where s > 0, a node is not paired with itself, and one that
        is above for no relation is no candidate. The paper names no settings of its encoders, so
        they are two layers of width 512, trained for 100 epochs.
        """
        training = TrainingConfig(epochs=100, anchors=None, similarity="inner", temperature=1.0)
        return FitConfig(
            sampler=SamplerConfig.paper(),
            crossfit=0,
            positives=self.positives,
            draws=None,
            plans=(EnsembleConfig((EncoderConfig(PAPER_ENCODERS.get(encoder, {}), training),)),),
        )

    @classmethod
    def from_plain(cls, stored: Mapping[str, Any]) -> FitConfig:
        """The recipe whose `dataclasses.asdict` went through JSON or TOML."""
        try:
            sampler: dict[str, Any] = {"tie_break": None, **stored["sampler"]}
            sampler["quantiles"] = tuple(sampler["quantiles"])
            settings: dict[str, Any] = {
                "sampler": SamplerConfig(**sampler),
                "plans": tuple(EnsembleConfig.from_plain(plan) for plan in stored["plans"]),
            }
            # TOML has no word for None: what is missing is None.
            return cls(**{"draws": None, **stored, **settings})
        except UsageError:
            raise
        except (KeyError, TypeError, ValueError) as broken:
            what = f"it lacks {broken}" if isinstance(broken, KeyError) else broken
            raise UsageError(f"The recipe cannot be used: {what}.") from broken


Similarity = Literal["cosine", "inner"]
