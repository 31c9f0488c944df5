"""Ways to change one thing about a recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig

ConfigChange = Callable[[FitConfig], FitConfig]
Which = Callable[[EncoderConfig], bool]


def deep(member: EncoderConfig) -> bool:
    """An encoder of several layers."""
    return int(str(member.encoder.get("layers", 1))) > 1


def linear(member: EncoderConfig) -> bool:
    """An encoder of one layer."""
    return not deep(member)


def every(member: EncoderConfig) -> bool:
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
    return _of_members(lambda member: replace(member, encoder=member.encoder | options), which)


def bold(which: Which) -> ConfigChange:
    """Encoders whose weight does not fall with the trust more than that of the others."""
    return _of_members(lambda member: replace(member, trust_exponent=0.0), which)


def training(which: Which = every, **settings: Any) -> ConfigChange:
    """Other settings of the training."""
    return _of_members(
        lambda member: replace(member, training=replace(member.training, **settings)), which
    )


def scale_setting(name: str, factor: float) -> ConfigChange:
    """A setting of the training that is a number, times `factor`; a count stays one."""

    def change(member: EncoderConfig) -> EncoderConfig:
        old = getattr(member.training, name)
        new = type(old)(factor * old)
        return replace(member, training=replace(member.training, **{name: new}))

    return _of_members(change)


def only(which: Which) -> ConfigChange:
    """The other encoders left out; the attributes stay."""
    return _of_plans(
        lambda plan: replace(plan, encoders=tuple(m for m in plan.encoders if which(m)))
    )


def repeated(which: Which, times: int) -> ConfigChange:
    """An encoder trained with so many seeds; together they weigh what it weighed alone."""

    def change(plan: EnsembleConfig) -> EnsembleConfig:
        members: list[EncoderConfig] = []
        for member in plan.encoders:
            # Parts of unit length side by side: it is the squares of their weights that add up.
            part = replace(member, weight=member.weight / times**0.5)
            members += [part] * times if which(member) else [member]
        return replace(plan, encoders=tuple(members))

    return _of_plans(change)


def plans(**settings: Any) -> ConfigChange:
    """Other settings of the plans."""
    return _of_plans(lambda plan: replace(plan, **settings))


def _of_plans(change: Callable[[EnsembleConfig], EnsembleConfig]) -> ConfigChange:
    return lambda recipe: replace(
        recipe, ensembles=tuple(change(plan) for plan in recipe.ensembles)
    )


def _of_members(
    change: Callable[[EncoderConfig], EncoderConfig], which: Which = every
) -> ConfigChange:
    return lambda recipe: recipe.map_encoders(
        lambda member: change(member) if which(member) else member
    )
