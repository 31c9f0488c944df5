"""The parameters of `tune`: each does what its name says, and nothing at its default."""

from __future__ import annotations

import itertools

import pytest
import torch

from xtcl.config import FIXED_RULES, HIDDEN_LABELS, EncoderConfig, EnsembleConfig, FitConfig
from xtcl.model_selection.search_space import (
    LINK_PARAMETERS,
    NODE_PARAMETERS,
    Parameter,
    apply_values,
    parameters_of,
)
from xtcl.nn import encoder_factory
from xtcl.tasks import make_task

EVERY = [(task, encoder) for task in ("nodes", "links") for encoder in ("gcn", "gat")]


def members(recipe: FitConfig) -> list[EncoderConfig]:
    return [member for plan in recipe.ensembles for member in plan.encoders]


def parameter(name: str, of: tuple[Parameter, ...]) -> Parameter:
    (found,) = (one for one in of if one.name == name)
    return found


@pytest.mark.parametrize(("task", "encoder"), EVERY)
def test_usual_places_leave_the_recipe_as_it_is(task: str, encoder: str) -> None:
    recipe = make_task(task).recipe(encoder)
    parameters = parameters_of(task, recipe)
    assert apply_values(recipe, parameters, {one.name: one.default for one in parameters}) == recipe
    for one in parameters:
        assert one.default in one.values or one.values[0] < one.default < one.values[1]


@pytest.mark.parametrize(("task", "encoder"), EVERY)
def test_every_corner_is_a_recipe_that_can_be_used(task: str, encoder: str) -> None:
    recipe = make_task(task).recipe(encoder)
    parameters = parameters_of(task, recipe)
    for corner in itertools.product(*((one.values[0], one.values[-1]) for one in parameters)):
        chosen_values = {one.name: place for one, place in zip(parameters, corner, strict=True)}
        with_value = apply_values(recipe, parameters, chosen_values).validated()
        for member in members(with_value):
            with torch.device("meta"):
                encoder_factory(encoder, 1, member.encoder)()
            assert 0 <= float(str(member.encoder.get("dropout", 0))) < 1


def test_knobs_that_turn_nothing_are_left_out() -> None:
    names = {
        encoder: {one.name for one in parameters_of("nodes", make_task("nodes").recipe(encoder))}
        for encoder in ("gcn", "gat")
    }
    assert names["gcn"] == {one.name for one in NODE_PARAMETERS}
    assert names["gcn"] - names["gat"] == {"restart"}
    bare = FitConfig(ensembles=(EnsembleConfig((EncoderConfig(),)),))
    assert {one.name for one in parameters_of("nodes", bare)} == {
        "epochs",
        "temperature",
        "positives",
        "least chance",
        "quantiles",
    }


@pytest.mark.parametrize("name", [FIXED_RULES, HIDDEN_LABELS])
def test_nodes(name: str) -> None:
    recipe = make_task("nodes").named_recipe(name, "gcn")
    before = recipe.ensembles[0].encoders
    linear, deep = before[:2]
    assert (len(before) == 2) is (name == FIXED_RULES)

    def with_value(name: str, place: object) -> FitConfig:
        return parameter(name, NODE_PARAMETERS).apply(recipe, place)

    def all_of(changed: FitConfig) -> tuple[EncoderConfig, ...]:
        return changed.ensembles[0].encoders

    usual = recipe.min_probability
    assert usual == (0.8 if name == FIXED_RULES else 0.0)
    for shift in (-0.4, 0.15, 0.5, -2.0, 1.5):
        chance = min(max(usual + shift, 0.0), 0.98)
        assert with_value("least chance", shift).min_probability == pytest.approx(chance)

    longer = all_of(with_value("epochs", 2.5))
    for member, old in zip(longer, before, strict=True):
        assert member.training.epochs == round(2.5 * old.training.epochs)
    assert all_of(with_value("epochs", 1e-9))[0].training.epochs == 1
    colder = all_of(with_value("temperature", 0.5))
    for member, old in zip(colder, before, strict=True):
        assert member.training.temperature == old.training.temperature / 2
    first, second, *others = all_of(with_value("restart", 2.0))
    assert first.encoder == linear.encoder | {"restart": 0.4}
    assert second == deep  # it has none
    assert [each.encoder["restart"] for each in others] == [0.4] * (len(before) - 2)
    assert all_of(with_value("hops", 0.4))[0].encoder == linear.encoder | {"hops": 4}
    first, *others = all_of(with_value("further members", 2.0))
    assert first == linear
    assert [each.weight for each in others] == [2 * each.weight for each in before[1:]]
    assert (
        with_value("attributes", 0.5).ensembles[0].attributes == recipe.ensembles[0].attributes / 2
    )
    assert with_value("positives", 2.0).positives == 2 * recipe.positives
    assert with_value("quantiles", "0.95 0.99").sampler.quantiles == (0.95, 0.99)


def test_links() -> None:
    recipe = make_task("links").recipe("gcn")

    def with_value(name: str, place: object) -> FitConfig:
        return parameter(name, LINK_PARAMETERS).apply(recipe, place)

    for name, place, expected in (
        ("dropout", -0.3, [0.4, 0.0]),
        ("dropout", 0.3, [0.9, 0.5]),
    ):
        found = [float(str(m.encoder["dropout"])) for m in members(with_value(name, place))]
        assert found == pytest.approx(expected)
    dropped = [m.training.link_dropout for m in members(with_value("link dropout", 0.2))]
    assert dropped == pytest.approx([0.7, 0.5])
    assert with_value("candidate weight", 0.5).candidate_weight == recipe.candidate_weight / 2
    layers = [m.encoder["layers"] for m in members(with_value("further layers", 1))]
    assert layers == [2, 3]
    assert with_value("epochs", 2.0).stop_early
    assert [m.training.epochs for m in members(with_value("epochs", 2.0))] == [
        2 * m.training.epochs for m in members(recipe)
    ]
