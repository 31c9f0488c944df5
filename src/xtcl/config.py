"""Every setting of a fit, in six frozen dataclasses; `FitConfig` holds all others.

    FitConfig
      sampler: SamplerConfig
      ensembles: EnsembleConfig, ...
        encoders: EncoderConfig, ...
          training: TrainingConfig
            batch: BatchConfig

`dataclasses.asdict` gives plain values for JSON and TOML, and `from_dict` reads them. `validated`
refuses values that cannot be used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from xtcl.errors import UsageError, check_whole, is_number, is_whole
from xtcl.relations.registry import make_relation
from xtcl.relations.thresholds import PAPER_QUANTILES, AboveRule, check_quantiles
from xtcl.renamed import current_names, with_old_names

Similarity = Literal["cosine", "inner"]
Messages = Literal["links", "likely"]


def _check_whole(name: str, value: Any, least: int) -> None:
    if is_number(value) and not value >= least:
        raise UsageError(f"{name}={value} must be at least {least}.")
    check_whole(name, value, least)


def _check_are_numbers(config: object, *names: str) -> None:
    for name in names:
        if not is_number(value := getattr(config, name)):
            raise UsageError(f"{name}={value!r} must be a number.")


@with_old_names
@dataclass(frozen=True)
class BatchConfig:
    """How much of the graph a training step reads.

    `neighbours` is None for the full graph in every step. Otherwise a step's sub-graph grows from
    its anchors, their positives and its negatives: entry l is the number of neighbours drawn for a
    node l links away (None: all). An encoder of fewer hops ignores the last entries; one that only
    smooths attributes needs none, `()`. `TrainingConfig.anchors` is the number of anchors of a
    step. With mini-batches the final embedding is made layer by layer, with about `block` nodes
    and links at a time.
    """

    neighbours: tuple[int | None, ...] | None = None
    block: int = 2**18

    def validated(self) -> BatchConfig:
        """These settings, or an error that names the one that cannot be used."""
        limits = () if self.neighbours is None else self.neighbours
        if not isinstance(limits, (tuple, list)):
            raise UsageError(f"neighbours={limits!r} must be a tuple of numbers, such as (10, 10).")
        for limit in limits:
            if limit is not None and (not is_number(limit) or not limit >= 1):
                raise UsageError(f"neighbours={self.neighbours} must be at least 1 each.")
        _check_whole("block", self.block, 1)
        return self

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> BatchConfig:
        """The settings whose `dataclasses.asdict` went through JSON or TOML."""
        settings = current_names(stored)
        if settings.get("neighbours") is not None:
            known = (None if limit == "none" else limit for limit in settings["neighbours"])
            settings["neighbours"] = tuple(known)
        return cls(**settings)


@with_old_names
@dataclass(frozen=True)
class TrainingConfig:
    """How an encoder is trained.

    In an epoch every node is an anchor once, in steps of about `anchors` nodes (None: one step), so
    that larger graphs take more steps. Of more than `epoch_anchors` nodes (None: no limit) that
    many are drawn for each epoch, and no more steps are taken. `negatives` random nodes are drawn
    each step and shared by its anchors. `link_dropout` is the share of links left out of message
    passing in a step; they stay positives. `batch` is how much of the graph a step reads.
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

    def validated(self) -> TrainingConfig:
        """These settings, or an error that names the one that cannot be used."""
        for name in ("epochs", "negatives", "anchors", "epoch_anchors"):
            value = getattr(self, name)
            if value is not None or name in ("epochs", "negatives"):
                _check_whole(name, value, 1)
        _check_are_numbers(self, "learning_rate", "temperature", "weight_decay", "link_dropout")
        for name in ("learning_rate", "temperature"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)} must be above 0.")
        if not self.weight_decay >= 0:
            raise UsageError(f"weight_decay={self.weight_decay} must not be below 0.")
        if not 0 <= self.link_dropout < 1:
            raise UsageError(f"link_dropout={self.link_dropout} must be in [0, 1).")
        if self.similarity not in ("cosine", "inner"):
            raise UsageError(f"similarity='{self.similarity}' must be 'cosine' or 'inner'.")
        self.batch.validated()
        return self

    def anchors_per_epoch(self, num_nodes: int) -> int:
        """Anchors of an epoch on a graph of this size."""
        return num_nodes if self.epoch_anchors is None else min(num_nodes, self.epoch_anchors)

    def steps_per_epoch(self, num_nodes: int) -> int:
        """Steps of an epoch on a graph of this size."""
        if self.anchors is None:
            return 1
        return max(1, round(self.anchors_per_epoch(num_nodes) / self.anchors))

    def anchors_per_step(self, num_nodes: int) -> int:
        """Anchors of a step, at most, on a graph of this size."""
        return -(-self.anchors_per_epoch(num_nodes) // self.steps_per_epoch(num_nodes))

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> TrainingConfig:
        """The settings whose `dataclasses.asdict` went through JSON or TOML."""
        settings = current_names(stored)
        batch = BatchConfig.from_dict(settings.get("batch", {}))
        # TOML has no word for None: what is missing is None.
        return cls(**{"anchors": None, "epoch_anchors": None, **settings, "batch": batch})


@with_old_names
@dataclass(frozen=True)
class SamplerConfig:
    """How the stumps are fitted. `SamplerConfig.paper()` is Algorithm 1 as printed.

    With `base_score="prior"` the fit starts from the log-odds of a match, steps may not overshoot,
    and constants are kept out of the weights. With a number it starts there, and steps and weights
    stay as they come. Every relation starts with `prior_pairs` pseudo-counts, half of them alike
    (`with_prior`), for tasks whose matches are not rare: with few labels no counted pair is above
    for most relations, and their weights would be 0.

    `cap` is top-k mode: of each row's above set only the `cap` best stay, and a fit takes time and
    memory in proportion to V cap (docs/top-k.md). Where more than `index_past` nodes have different
    attributes, an index of FAISS finds most of them; without it, the search is exact.

    The last four are where the printed text was not followed, each a switch (docs/design.md, "The
    paper as printed"). `positive_only`: a pair is above only where s > 0, besides s >= eta.
    `self_pairs`: a node is paired with itself in thresholds and counts, never as a positive.
    `above_only`: a node that is above for no relation is no candidate. `printed_relations`: a
    relation that is given by name is the printed one, where ours differs.
    """

    quantiles: tuple[float, ...] = PAPER_QUANTILES
    base_score: float | str = "prior"
    sweeps: int = 30
    penalty: float = 1.0
    prior_pairs: int = 0
    tie_break: str | None = "attribute-distribution"
    cap: int | None = None
    index_past: int | None = None
    positive_only: bool = True
    self_pairs: bool = False
    above_only: bool = True
    printed_relations: bool = False

    @classmethod
    def paper(cls) -> SamplerConfig:
        """One threshold, start from 0 without prior pairs, one sweep, random tie-break.

        Relations are the printed ones. The other three switches stay as they are: see there.
        """
        return cls(
            PAPER_QUANTILES, base_score=0.0, sweeps=1, tie_break=None, printed_relations=True
        )

    @property
    def above_rule(self) -> AboveRule:
        """When a pair is above, besides its threshold."""
        return AboveRule(self.positive_only, self.self_pairs)

    def validated(self) -> SamplerConfig:
        """These settings, or an error that names the one that cannot be used."""
        check_quantiles(self.quantiles)
        if isinstance(self.base_score, str):
            if self.base_score != "prior":
                raise UsageError(f"base_score='{self.base_score}' must be 'prior' or a number.")
        elif not is_number(self.base_score) or not math.isfinite(self.base_score):
            raise UsageError(f"base_score={self.base_score} must be 'prior' or a finite number.")
        _check_whole("sweeps", self.sweeps, 1)
        _check_are_numbers(self, "penalty")
        if not self.penalty >= 0:
            raise UsageError(f"penalty={self.penalty} must not be negative.")
        _check_whole("prior_pairs", self.prior_pairs, 0)
        if self.tie_break is not None:
            make_relation(self.tie_break)
        for name, least in (("cap", 1), ("index_past", 0)):
            value = getattr(self, name)
            if value is not None and (not is_whole(value) or value < least):
                raise UsageError(
                    f"{name}={value} must be a whole number of at least {least}, or None."
                )
        if self.index_past is not None and self.cap is None:
            raise UsageError(
                f"index_past={self.index_past} is for top-k mode: give a cap, such as 32, too."
            )
        for name, usual in (("positive_only", True), ("self_pairs", False), ("above_only", True)):
            if self.cap is not None and getattr(self, name) != usual:
                raise UsageError(
                    f"{name}={not usual} needs whole rows, which cap={self.cap} does not compute: "
                    f"leave out the cap, or {name}."
                )
        return self

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> SamplerConfig:
        """The settings whose `dataclasses.asdict` went through JSON or TOML."""
        settings = {"tie_break": None, **current_names(stored)}
        return cls(**{**settings, "quantiles": tuple(settings["quantiles"])})


PAPER_ENCODERS: dict[str, dict[str, object]] = {
    "gcn": {"layers": 2, "hops": 1},
    "gat": {"layers": 2},
}
"""The encoders as in the papers that introduced them, two layers: XTCL's paper names none."""


@with_old_names
@dataclass(frozen=True)
class EncoderConfig:
    """One encoder: the options of its module, how it is trained, its weight beside others.

    A flexible encoder learns wrong positives as readily as right ones. Its weight is multiplied by
    the share of positives that can be trusted, to the power of `trust_exponent`. `positives` names
    the strategy of its positives (None: that of the recipe). It passes messages over the given
    "links", or over those that the sampler holds for "likely" (`xtcl.sampling.likely_graph`).
    """

    encoder: dict[str, object] = field(default_factory=dict)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    weight: float = 1.0
    trust_exponent: float = 0.0
    positives: str | None = None
    messages: Messages = "links"

    def trained(self, epochs: int, trust: float) -> EncoderConfig:
        """The encoder after training: the epochs it took, and its weight with the trust in it."""
        training = replace(self.training, epochs=epochs)
        weight = self.weight * trust**self.trust_exponent
        return replace(self, training=training, weight=weight, trust_exponent=0.0)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> EncoderConfig:
        """The encoder whose `dataclasses.asdict` went through JSON or TOML."""
        settings = current_names(stored)
        parts = {"encoder": dict(settings["encoder"]), "weight": settings["weight"]}
        parts["training"] = TrainingConfig.from_dict(settings["training"])
        return cls(**settings | parts)


@with_old_names
@dataclass(frozen=True)
class EnsembleConfig:
    """Encoders trained apart and joined, and the weight of the attributes beside them."""

    encoders: tuple[EncoderConfig, ...] = (EncoderConfig(),)
    attributes: float = 0.0

    def __post_init__(self) -> None:
        if not self.encoders:
            raise UsageError("An ensemble needs at least one encoder.")

    def map_encoders(self, change: Callable[[EncoderConfig], EncoderConfig]) -> EnsembleConfig:
        """The ensemble with every encoder changed."""
        return replace(self, encoders=tuple(change(encoder) for encoder in self.encoders))

    def width(self, num_attributes: int) -> int:
        """Columns of the embedding; 512 for an encoder without a width in its options."""
        kept = 3 * num_attributes if self.attributes else 0
        return kept + sum(int(str(each.encoder.get("width", 512))) for each in self.encoders)

    @property
    def batch(self) -> BatchConfig:
        """How all encoders together embed the nodes: in mini-batches if one of them does."""
        known = [encoder.training.batch for encoder in self.encoders]
        return next((batch for batch in known if batch.neighbours is not None), known[0])

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> EnsembleConfig:
        """The ensemble whose `dataclasses.asdict` went through JSON or TOML."""
        settings = current_names(stored)
        encoders = tuple(EncoderConfig.from_dict(each) for each in settings["encoders"])
        return cls(encoders, settings["attributes"])


HIDDEN_LABELS = "hidden-labels"
QUICK = "quick"
FIXED_RULES = "2026-11"
RECIPES = (FIXED_RULES, HIDDEN_LABELS, QUICK)
"""Recipes by name: the fixed rules of November 2026, and hidden labels in their place for nodes."""

NODE_HEADS = ("logistic", "trees")
"""What hidden labels can choose among to answer for nodes."""


@with_old_names
@dataclass(frozen=True)
class FitConfig:
    """Every setting from sampler to head; also called a recipe.

    `crossfit` is the number of folds (0: as in the paper, none), `positives` the paper's B.
    A positive must have a probability f_u(v) of at least `min_probability`; a node's best needs
    none. In a step a node is pulled towards `num_positives_per_step` of them (None: all). For
    links, a node is pulled towards `num_links_per_step` of its neighbours with weight 1 and towards
    `num_positives_per_step` of its best unlinked candidates with weight `candidate_weight`. Without
    `num_links_per_step`, known links are candidates like all others.

    A task that can hide part of its training data tries all `ensembles` and takes the one that
    does best there; other tasks take the first. With `stop_early` the hidden part also decides how
    many epochs to train. Where labels held out of the head are hardly likelier with all that was
    learned than with less of it beside the attributes, the trust in it is multiplied by
    `downweight` (1: never). Predictions of the head with a probability above
    `self_training_threshold` are labels for a second fit of it (1: never). With `signals`, hidden
    links decide how much degrees and relations count beside the embeddings in the score of a pair.

    `strategy` is how positives are chosen, by a name of `xtcl.sampling.strategies`: "learned",
    "uniform", "same-label", "naive", or a mixture such as "learned+uniform". With `hops` the
    positives of a node are at most so many links away (None: anywhere).

    For nodes, with `hidden_parts` of at least 2, the training labels are divided into so many
    parts, and each is hidden in turn from the whole fit. The hidden labels choose which columns of
    the embedding and which `heads` answer (`xtcl.tasks.hidden_labels`). Of the predictions, the
    surest are labels for a second fit: a share of `pseudo_label_precision` is right (1: none).
    `metric` is what they choose for: with "balanced_accuracy" or "macro_f1" all classes count
    alike, and rare ones are predicted more often.
    """

    sampler: SamplerConfig = field(default_factory=SamplerConfig)
    crossfit: int = 5
    positives: int = 20
    min_probability: float = 0.0
    num_positives_per_step: int | None = 4
    num_links_per_step: int = 0
    candidate_weight: float = 1.0
    ensembles: tuple[EnsembleConfig, ...] = (EnsembleConfig(),)
    stop_early: bool = False
    downweight: float = 1.0
    self_training_threshold: float = 1.0
    signals: bool = False
    strategy: str = "learned"
    hops: int | None = None
    hidden_parts: int = 0
    heads: tuple[str, ...] = ("logistic",)
    pseudo_label_precision: float = 1.0
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        if not self.ensembles:
            raise UsageError("A recipe needs at least one ensemble.")

    def map_encoders(self, change: Callable[[EncoderConfig], EncoderConfig]) -> FitConfig:
        """The recipe with every encoder of every ensemble changed."""
        return replace(self, ensembles=tuple(each.map_encoders(change) for each in self.ensembles))

    def with_strategy(self, name: str, *, learns: bool) -> FitConfig:
        """The recipe with one strategy of positives for every encoder.

        Encoders that are there for another strategy beside the first are left out. Likely links are
        the sampler's, so encoders over them stay only where the strategy `learns`.
        """

        def changed(ensemble: EnsembleConfig) -> EnsembleConfig:
            first = ensemble.encoders[0].positives
            kept = [
                replace(each, positives=each.positives and name)
                for each in ensemble.encoders
                if (learns if each.messages == "likely" else each.positives in (first, None))
            ]
            return replace(ensemble, encoders=tuple(kept))

        return replace(self, strategy=name, ensembles=tuple(map(changed, self.ensembles)))

    def validated(self) -> FitConfig:
        """The recipe itself, or an error that names the setting that cannot be used."""
        if not isinstance(self.sampler, SamplerConfig):
            raise UsageError(f"sampler={self.sampler!r} must be a SamplerConfig.")
        self.sampler.validated()
        for name in ("crossfit", "hidden_parts"):
            _check_whole(name, getattr(self, name), 0)
            if getattr(self, name) == 1:
                raise UsageError(f"{name}=1 must be 0 (off) or at least 2.")
        _check_whole("positives", self.positives, 1)
        _check_whole("num_links_per_step", self.num_links_per_step, 0)
        for name in ("num_positives_per_step", "hops"):
            if getattr(self, name) is not None:
                _check_whole(name, getattr(self, name), 1)
        thresholds = ("self_training_threshold", "pseudo_label_precision")
        _check_are_numbers(self, "min_probability", "downweight", *thresholds)
        if not 0 <= self.min_probability <= 1:
            raise UsageError(f"min_probability={self.min_probability} must be between 0 and 1.")
        if not 0 < self.downweight <= 1:
            raise UsageError(f"downweight={self.downweight} must be above 0 and at most 1.")
        for name in thresholds:
            if not 0.5 <= getattr(self, name) <= 1:
                raise UsageError(f"{name}={getattr(self, name)} must be between 0.5 and 1.")
        if not self.heads or not set(self.heads) <= set(NODE_HEADS):
            raise UsageError(f"heads={self.heads!r} must be some of {', '.join(NODE_HEADS)}.")
        for ensemble in self.ensembles:
            for encoder in ensemble.encoders:
                encoder.training.validated()
                if encoder.messages not in ("links", "likely"):
                    raise UsageError(f"messages='{encoder.messages}' must be 'links' or 'likely'.")
        return self

    def as_in_paper(self, encoder: str) -> FitConfig:
        """The paper as printed: Algorithm 1, no cross-fitting, Equation 1 with all B positives.

        What stays are three switches of `SamplerConfig`: a pair is above only where s > 0, a node
        is not paired with itself, and one that is above for no relation is no candidate. The paper
        names no settings of its encoders, so they are two layers of width 512, trained for 100
        epochs.
        """
        training = TrainingConfig(epochs=100, anchors=None, similarity="inner", temperature=1.0)
        single = EncoderConfig(PAPER_ENCODERS.get(encoder, {}), training)
        return FitConfig(
            sampler=SamplerConfig.paper(),
            crossfit=0,
            positives=self.positives,
            num_positives_per_step=None,
            ensembles=(EnsembleConfig((single,)),),
            # Where hidden labels choose, each encoder has a strategy of its own.
            strategy="learned" if self.hidden_parts else self.strategy,
            hops=self.hops,
        )

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> FitConfig:
        """The recipe whose `dataclasses.asdict` went through JSON or TOML."""
        try:
            settings = current_names(stored)
            sampler = SamplerConfig.from_dict(settings["sampler"])
            ensembles = tuple(map(EnsembleConfig.from_dict, settings["ensembles"]))
            parts = {"heads": tuple(settings.get("heads", ("logistic",)))}
            # TOML has no word for None: what is missing is None.
            missing = {"num_positives_per_step": None}
            return cls(**missing | settings | parts | {"sampler": sampler, "ensembles": ensembles})
        except UsageError:
            raise
        except (KeyError, TypeError, ValueError) as broken:
            what = f"it lacks {broken}" if isinstance(broken, KeyError) else broken
            raise UsageError(f"The recipe cannot be used: {what}.") from broken


def to_builtin(value: Any) -> Any:
    """`value` without NumPy's types, which a search over parameters gives, and without tuples."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, dict):
        return {name: to_builtin(entry) for name, entry in value.items()}
    return [to_builtin(entry) for entry in value] if isinstance(value, (list, tuple)) else value
