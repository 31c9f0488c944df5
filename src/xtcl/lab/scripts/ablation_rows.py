"""The rows of the ablation: the default recipe of xtcl-gcn with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from xtcl.config import PAPER_ENCODERS, EncoderConfig, EnsembleConfig, FitConfig
from xtcl.lab.scripts.ablation_fits import (
    fit_again,
    fit_debiased,
    fit_in_full_trust,
    fit_unfiltered,
    fit_weighted,
)
from xtcl.tasks.fit import FittedTask, fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.task import Task
from xtcl.tasks.training_data import TrainingData

ConfigChange = Callable[[FitConfig], FitConfig]
Which = Callable[[EncoderConfig], bool]


def deep(encoder_config: EncoderConfig) -> bool:
    """An encoder of several layers."""
    return int(str(encoder_config.encoder.get("layers", 1))) > 1


def linear(encoder_config: EncoderConfig) -> bool:
    """An encoder of one layer."""
    return not deep(encoder_config)


def every(encoder_config: EncoderConfig) -> bool:
    """Any encoder."""
    return True


def same(recipe: FitConfig) -> FitConfig:
    """No change."""
    return recipe


def overall(**settings: Any) -> ConfigChange:
    """Other settings of the recipe itself."""
    return lambda recipe: replace(recipe, **settings)


def sampler(**settings: Any) -> ConfigChange:
    """Other settings of the sampler."""
    return lambda recipe: replace(recipe, sampler=replace(recipe.sampler, **settings))


def encoder(which: Which = every, **options: object) -> ConfigChange:
    """Other options of the encoders."""
    return _of_encoders(
        lambda encoder_config: replace(encoder_config, encoder=encoder_config.encoder | options),
        which,
    )


def bold(which: Which) -> ConfigChange:
    """Encoders whose weight does not fall with the trust more than that of the others."""
    return _of_encoders(lambda encoder_config: replace(encoder_config, trust_exponent=0.0), which)


def training(which: Which = every, **settings: Any) -> ConfigChange:
    """Other settings of the training."""
    return _of_encoders(
        lambda encoder_config: replace(
            encoder_config, training=replace(encoder_config.training, **settings)
        ),
        which,
    )


def scale_setting(name: str, factor: float) -> ConfigChange:
    """A setting of the training that is a number, times `factor`; a count stays one."""

    def change(encoder_config: EncoderConfig) -> EncoderConfig:
        old = getattr(encoder_config.training, name)
        new = type(old)(factor * old)
        return replace(encoder_config, training=replace(encoder_config.training, **{name: new}))

    return _of_encoders(change)


def only(which: Which) -> ConfigChange:
    """The other encoders left out; the attributes stay."""
    return _of_ensembles(
        lambda ensemble: replace(ensemble, encoders=tuple(m for m in ensemble.encoders if which(m)))
    )


def repeated(which: Which, times: int) -> ConfigChange:
    """An encoder trained with so many seeds; together they weigh what it weighed alone."""

    def change(ensemble: EnsembleConfig) -> EnsembleConfig:
        encoder_configs: list[EncoderConfig] = []
        for encoder_config in ensemble.encoders:
            # Parts of unit length side by side: it is the squares of their weights that add up.
            part = replace(encoder_config, weight=encoder_config.weight / times**0.5)
            encoder_configs += [part] * times if which(encoder_config) else [encoder_config]
        return replace(ensemble, encoders=tuple(encoder_configs))

    return _of_ensembles(change)


def ensembles_with(**settings: Any) -> ConfigChange:
    """Other settings of the plans."""
    return _of_ensembles(lambda ensemble: replace(ensemble, **settings))


def _of_ensembles(change: Callable[[EnsembleConfig], EnsembleConfig]) -> ConfigChange:
    return lambda recipe: replace(
        recipe, ensembles=tuple(change(ensemble) for ensemble in recipe.ensembles)
    )


def _of_encoders(
    change: Callable[[EncoderConfig], EncoderConfig], which: Which = every
) -> ConfigChange:
    return lambda recipe: recipe.map_encoders(
        lambda encoder_config: change(encoder_config) if which(encoder_config) else encoder_config
    )


ENCODER = "gcn"
FOUR_LEVELS = (0.90, 0.97, 0.99, 0.997)

Fit = Callable[[TrainingData, Task, FitConfig, FitOptions], FittedTask]


@dataclass(frozen=True)
class Row:
    """One thing changed: in the recipe, or in how it is carried out."""

    name: str
    title: str
    change: ConfigChange = same
    fit: Fit = fit_task


DEFAULT = Row("default", "the default recipe")


def literal(recipe: FitConfig) -> FitConfig:
    """The paper as printed."""
    return recipe.as_in_paper(ENCODER)


SHARED = (
    DEFAULT,
    Row("literal", "the paper as printed", literal),
    Row("no-crossfit", "no cross-fitting", overall(crossfit=0)),
    Row("four-levels", "four quantile levels per relation", sampler(quantiles=FOUR_LEVELS)),
)
NODE_ROWS = (
    *SHARED,
    Row("base-0", "base score 0 and one sweep", sampler(base_score=0.0, sweeps=1)),
    Row("no-prior", "no prior pairs", sampler(prior_pairs=0)),
    Row("ties-by-chance", "ties between candidates broken at random", sampler(tie_break=None)),
    Row("all-candidates", "no minimum probability, full trust", overall(min_probability=0.0)),
    Row("full-trust", "the minimum probability, but full trust", fit=fit_in_full_trust),
    Row("unfiltered", "the trust, but no minimum probability", fit=fit_unfiltered),
    Row("no-doubt", "no down-weighting", overall(downweight=1.0)),
    Row("one-fit", "the head fitted once, on labels alone", overall(self_training_threshold=1.0)),
    Row("least-chance-0.5", "a minimum probability of 0.5", overall(min_probability=0.5)),
    Row("least-chance-0.9", "a minimum probability of 0.9", overall(min_probability=0.9)),
    Row("positives-5", "B = 5 positives", overall(positives=5)),
    Row("positives-100", "B = 100 positives", overall(positives=100)),
    Row("weighted", "positives weighted by f_u(v)", fit=fit_weighted),
    Row("debiased", "negatives weighted by 1 - f_u(v)", fit=fit_debiased),
    Row("another-round", "one re-estimation round", fit=fit_again),
    Row("temperature-0.2", "temperature 0.2 (linear)", training(linear, temperature=0.2)),
    Row("temperature-1.0", "temperature 1.0 (linear)", training(linear, temperature=1.0)),
    Row(
        "two-layer-gcn",
        "a plain two-layer GCN only",
        overall(ensembles=(EnsembleConfig((EncoderConfig(dict(PAPER_ENCODERS[ENCODER])),)),)),
    ),
    Row("linear-only", "without the two-layer encoder", only(linear)),
    Row("deep-only", "without the linear encoder", only(deep)),
    Row("no-caution", "the two-layer encoder with trust exponent 0", bold(deep)),
    Row("no-attributes", "without concatenated attributes", ensembles_with(attributes=0.0)),
    Row("one-hop", "one hop, no restart (linear)", encoder(linear, hops=1, restart=0.0)),
    Row("two-hops", "two hops, no restart (linear)", encoder(linear, hops=2, restart=0.0)),
    Row("ten-hops", "ten hops, no restart (linear)", encoder(linear, hops=10, restart=0.0)),
    Row(
        "deep-smoothed",
        "ten hops with restart for the two-layer encoder, too",
        encoder(deep, hops=10, restart=0.2),
    ),
    Row("width-256", "width 256", encoder(width=256)),
    Row("long", "four times the epochs", scale_setting("epochs", 4)),
    Row("full-batch", "all nodes in one step", training(anchors=None)),
    Row("three-seeds", "the linear encoder joined from three seeds", repeated(linear, 3)),
)
LINK_ROWS = (
    *SHARED,
    Row("first-plan", "the first ensemble only", lambda recipe: _one_ensemble(recipe, 0)),
    Row("second-plan", "the second ensemble only", lambda recipe: _one_ensemble(recipe, 1)),
    Row("no-early-stop", "the ensemble's own epochs", overall(stop_early=False)),
    Row("no-signals", "pairs scored by their embeddings alone", overall(signals=False)),
    Row("no-candidates", "known links only", overall(candidate_weight=0.0)),
    Row("candidates-1", "candidates with weight 1", overall(candidate_weight=1.0)),
    Row("no-link-dropout", "all links pass messages", training(link_dropout=0.0)),
    Row("temperature-half", "half the temperature", scale_setting("temperature", 0.5)),
    Row("temperature-double", "twice the temperature", scale_setting("temperature", 2.0)),
)
ROWS = {"nodes": NODE_ROWS, "links": LINK_ROWS}


def _one_ensemble(recipe: FitConfig, place: int) -> FitConfig:
    return replace(recipe, ensembles=(recipe.ensembles[place],))
