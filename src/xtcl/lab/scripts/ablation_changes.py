"""Ways to change one thing about a recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig

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
