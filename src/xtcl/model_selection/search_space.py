"""What `tune` may change in a recipe: a few knobs for each task.

Every knob says how far to go from the task's own recipe, so that one space serves the plans of all
encoders, and every knob at its usual place leaves the recipe as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig

Change = Callable[[FitConfig, Any], FitConfig]


Step = Callable[[Any, Any], Any]
"""From an old value and the place of a knob to a new value."""


@dataclass(frozen=True)
class Parameter:
    """A factor or a shift between two `values`, or a choice among them."""

    name: str
    kind: Literal["factor", "shift", "choice"]
    values: tuple[Any, ...]
    change: Change

    @property
    def usual(self) -> Any:
        """The place that changes nothing: for a choice the first."""
        return {"factor": 1.0, "shift": 0.0, "choice": self.values[0]}[self.kind]

    def turned(self, recipe: FitConfig, place: Any) -> FitConfig:
        """The recipe with this knob at `place`."""
        return recipe if place == self.usual else self.change(recipe, place)


def parameters_of(task: str, recipe: FitConfig) -> list[Parameter]:
    """The knobs of a task that make a difference to `recipe`."""
    knobs = LINKS if task == "links" else NODES
    return [knob for knob in knobs if any(knob.turned(recipe, v) != recipe for v in knob.values)]


def apply_change(
    recipe: FitConfig, knobs: Sequence[Parameter], places: Mapping[str, Any]
) -> FitConfig:
    """The recipe with every knob at its place."""
    for knob in knobs:
        recipe = knob.turned(recipe, places[knob.name])
    return recipe


def _times(old: float, factor: float) -> float:
    return old * factor


def _count(old: int, factor: float) -> int:
    return max(1, round(old * factor))


def _share(old: float, shift: float, most: float = 0.9) -> float:
    return min(max(old + shift, 0.0), most)


def _training(name: str, step: Step) -> Change:
    """Changes a training setting of every member."""

    def change(recipe: FitConfig, place: Any) -> FitConfig:
        def changed(member: EncoderConfig) -> EncoderConfig:
            new = step(getattr(member.training, name), place)
            return replace(member, training=replace(member.training, **{name: new}))

        return recipe.map_encoders(changed)

    return change


def _option(name: str, step: Step) -> Change:
    """Changes an option of the encoder in every member that states it."""

    def change(recipe: FitConfig, place: Any) -> FitConfig:
        def changed(member: EncoderConfig) -> EncoderConfig:
            if name not in member.encoder:
                return member
            new = step(member.encoder[name], place)
            return replace(member, encoder=member.encoder | {name: new})

        return recipe.map_encoders(changed)

    return change


def _plans(recipe: FitConfig, changed: Callable[[EnsembleConfig], EnsembleConfig]) -> FitConfig:
    return replace(recipe, ensembles=tuple(changed(plan) for plan in recipe.ensembles))


def _attributes(recipe: FitConfig, factor: float) -> FitConfig:
    return _plans(recipe, lambda plan: replace(plan, attributes=plan.attributes * factor))


def _further_members(recipe: FitConfig, factor: float) -> FitConfig:
    def changed(plan: EnsembleConfig) -> EnsembleConfig:
        first, *others = plan.encoders
        weighed = (replace(member, weight=member.weight * factor) for member in others)
        return replace(plan, encoders=(first, *weighed))

    return _plans(recipe, changed)


def _more_layers(recipe: FitConfig, more: int) -> FitConfig:
    def changed(member: EncoderConfig) -> EncoderConfig:
        layers = int(str(member.encoder.get("layers", 1))) + more
        return replace(member, encoder=member.encoder | {"layers": layers})

    return recipe.map_encoders(changed)


def _quantiles(recipe: FitConfig, text: str) -> FitConfig:
    levels = tuple(float(level) for level in text.split())
    return replace(recipe, sampler=replace(recipe.sampler, quantiles=levels))


NODES = (
    Parameter("epochs", "factor", (1 / 3, 3.0), _training("epochs", _count)),
    Parameter("temperature", "factor", (0.3, 3.0), _training("temperature", _times)),
    Parameter("restart", "factor", (0.25, 2.5), _option("restart", lambda a, by: min(a * by, 0.9))),
    Parameter("hops", "factor", (0.4, 2.0), _option("hops", lambda hops, by: round(hops * by))),
    Parameter("attributes", "factor", (0.3, 3.0), _attributes),
    Parameter("further members", "factor", (0.25, 4.0), _further_members),
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


# How many of the epochs are trained, hidden links say in every fit anew (`stop_early`).
LINKS = (
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
