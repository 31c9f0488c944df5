"""The search space of `tune`: a few parameters for each task.

A value of a parameter is relative to the recipe of the task, so that one space serves all encoders.
The default value of every parameter leaves the recipe as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig

Change = Callable[[FitConfig, Any], FitConfig]
"""The recipe with a value of a parameter applied."""

_Update = Callable[[Any, Any], Any]
"""From the old value of a setting and the value of a parameter to a new value."""


@dataclass(frozen=True)
class Parameter:
    """A factor or a shift between two `values`, or a choice from them."""

    name: str
    kind: Literal["factor", "shift", "choice"]
    values: tuple[Any, ...]
    change: Change

    @property
    def default(self) -> Any:
        """The value that changes nothing: of a choice the first."""
        return {"factor": 1.0, "shift": 0.0, "choice": self.values[0]}[self.kind]

    def apply(self, recipe: FitConfig, value: Any) -> FitConfig:
        """The recipe with this value applied."""
        return recipe if value == self.default else self.change(recipe, value)


def parameters_of(task: str, recipe: FitConfig) -> list[Parameter]:
    """The parameters of a task that make a difference to `recipe`."""
    space = LINK_PARAMETERS if task == "links" else NODE_PARAMETERS
    return [each for each in space if any(each.apply(recipe, v) != recipe for v in each.values)]


def apply_values(
    recipe: FitConfig, parameters: Sequence[Parameter], values: Mapping[str, Any]
) -> FitConfig:
    """The recipe with the value of every parameter applied; `values` are by name."""
    for parameter in parameters:
        recipe = parameter.apply(recipe, values[parameter.name])
    return recipe


def _times(old: float, factor: float) -> float:
    return old * factor


def _count(old: int, factor: float) -> int:
    return max(1, round(old * factor))


def _share(old: float, shift: float, upper: float = 0.9) -> float:
    return min(max(old + shift, 0.0), upper)


def _training(name: str, step: _Update) -> Change:
    """Change a training setting of every encoder."""

    def change(recipe: FitConfig, value: Any) -> FitConfig:
        def changed(encoder_config: EncoderConfig) -> EncoderConfig:
            new = step(getattr(encoder_config.training, name), value)
            return replace(encoder_config, training=replace(encoder_config.training, **{name: new}))

        return recipe.map_encoders(changed)

    return change


def _option(name: str, step: _Update) -> Change:
    """Change an option of every encoder that has it."""

    def change(recipe: FitConfig, value: Any) -> FitConfig:
        def changed(encoder_config: EncoderConfig) -> EncoderConfig:
            if name not in encoder_config.encoder:
                return encoder_config
            new = step(encoder_config.encoder[name], value)
            return replace(encoder_config, encoder=encoder_config.encoder | {name: new})

        return recipe.map_encoders(changed)

    return change


def _with_ensembles(
    recipe: FitConfig, changed: Callable[[EnsembleConfig], EnsembleConfig]
) -> FitConfig:
    return replace(recipe, ensembles=tuple(changed(ensemble) for ensemble in recipe.ensembles))


def _attributes(recipe: FitConfig, factor: float) -> FitConfig:
    return _with_ensembles(
        recipe, lambda ensemble: replace(ensemble, attributes=ensemble.attributes * factor)
    )


def _further_encoders(recipe: FitConfig, factor: float) -> FitConfig:
    def changed(ensemble: EnsembleConfig) -> EnsembleConfig:
        first, *others = ensemble.encoders
        weighed = (
            replace(encoder_config, weight=encoder_config.weight * factor)
            for encoder_config in others
        )
        return replace(ensemble, encoders=(first, *weighed))

    return _with_ensembles(recipe, changed)


def _more_layers(recipe: FitConfig, more: int) -> FitConfig:
    def changed(encoder_config: EncoderConfig) -> EncoderConfig:
        layers = int(str(encoder_config.encoder.get("layers", 1))) + more
        return replace(encoder_config, encoder=encoder_config.encoder | {"layers": layers})

    return recipe.map_encoders(changed)


def _quantiles(recipe: FitConfig, text: str) -> FitConfig:
    levels = tuple(float(level) for level in text.split())
    return replace(recipe, sampler=replace(recipe.sampler, quantiles=levels))


NODE_PARAMETERS = (
    Parameter("epochs", "factor", (1 / 3, 3.0), _training("epochs", _count)),
    Parameter("temperature", "factor", (0.3, 3.0), _training("temperature", _times)),
    Parameter("restart", "factor", (0.25, 2.5), _option("restart", lambda a, by: min(a * by, 0.9))),
    Parameter("hops", "factor", (0.4, 2.0), _option("hops", lambda hops, by: round(hops * by))),
    Parameter("attributes", "factor", (0.3, 3.0), _attributes),
    Parameter("further members", "factor", (0.25, 4.0), _further_encoders),
    Parameter(
        "positives",
        "factor",
        (0.25, 3.0),
        lambda recipe, by: replace(recipe, positives=_count(recipe.positives, by)),
    ),
    Parameter(
        "least chance",
        "shift",
        (-0.4, 0.15),
        lambda recipe, by: replace(
            recipe, min_probability=_share(recipe.min_probability, by, 0.98)
        ),
    ),
    Parameter("quantiles", "choice", ("usual", "0.98", "0.95 0.99", "0.98 0.995"), _quantiles),
)

# "epochs" is an upper limit: early stopping on hidden links ends most fits sooner.
LINK_PARAMETERS = (
    Parameter("epochs", "factor", (0.5, 3.0), _training("epochs", _count)),
    Parameter("temperature", "factor", (0.4, 2.5), _training("temperature", _times)),
    Parameter("dropout", "shift", (-0.3, 0.3), _option("dropout", _share)),
    Parameter("link dropout", "shift", (-0.3, 0.3), _training("link_dropout", _share)),
    Parameter(
        "candidate weight",
        "factor",
        (0.1, 3.0),
        lambda recipe, by: replace(recipe, candidate_weight=recipe.candidate_weight * by),
    ),
    Parameter("further layers", "choice", (0, 1), _more_layers),
)
