"""Recipes: what they say, that they survive a file, and the paper's own to the letter."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_runs import small_graph, small_split
from torch import Tensor

from xtcl import config
from xtcl.config import (
    FIXED_RULES,
    BatchConfig,
    EncoderConfig,
    EnsembleConfig,
    FitConfig,
    SamplerConfig,
    TrainingConfig,
    to_builtin,
)
from xtcl.config import RECIPES as RECIPE_NAMES
from xtcl.errors import UsageError
from xtcl.nn.loss import contrastive_loss
from xtcl.renamed import SETTINGS
from xtcl.runs.config_file import to_toml
from xtcl.tasks import make_task
from xtcl.tasks.fit import fit_task
from xtcl.tasks.fit_options import FitOptions
from xtcl.tasks.training_data import training_data

KINDS = [(task, encoder) for task in ("nodes", "links") for encoder in ("gcn", "gat", "custom")]


RECIPES = {f"{task} {encoder}": make_task(task).recipe(encoder) for task, encoder in KINDS}


RECIPES |= {
    f"nodes {encoder} {config.FIXED_RULES}": make_task("nodes").named_recipe(
        config.FIXED_RULES, encoder
    )
    for encoder in ("gcn", "gat", "custom")
}


RECIPES |= {
    f"{task} {encoder} literal": make_task(task).recipe(encoder).as_in_paper(encoder)
    for task, encoder in KINDS
}


def through_json(recipe: FitConfig) -> Any:
    return json.loads(json.dumps(asdict(recipe)))


def through_toml(recipe: FitConfig) -> Any:
    whole = to_builtin(asdict(recipe))
    sampler = whole.pop("sampler")
    return tomllib.loads(to_toml({"recipe": whole, "recipe.sampler": sampler}))["recipe"]


THROUGH = [through_json, through_toml]


@pytest.mark.parametrize("through", THROUGH)
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_survives_a_file(name: str, through: Callable[[FitConfig], Any]) -> None:
    recipe = RECIPES[name]
    assert FitConfig.from_dict(through(recipe)) == recipe
    assert recipe.validated() is recipe


def test_the_recipes_have_none_in_every_place_that_may() -> None:
    """What TOML cannot write does occur above."""
    assert {recipe.num_positives_per_step is None for recipe in RECIPES.values()} == {True, False}
    assert {recipe.sampler.tie_break is None for recipe in RECIPES.values()} == {True, False}
    trainings = [m.training for r in RECIPES.values() for p in r.ensembles for m in p.encoders]
    assert {training.anchors is None for training in trainings} == {True, False}


FRACTIONS = st.floats(0.001, 0.999)


COUNTS = st.integers(1, 10**6)


TRAININGS = st.builds(
    TrainingConfig,
    epochs=COUNTS,
    anchors=st.none() | COUNTS,
    learning_rate=FRACTIONS,
    weight_decay=FRACTIONS,
    negatives=COUNTS,
    similarity=st.sampled_from(["cosine", "inner"]),
    temperature=FRACTIONS,
    link_dropout=FRACTIONS,
    batch=st.builds(
        BatchConfig,
        neighbours=st.none() | st.lists(st.none() | COUNTS, max_size=3).map(tuple),
        block=COUNTS,
    ),
)


OPTIONS = st.dictionaries(
    st.sampled_from(["width", "hops", "restart", "batch_norm", "kind"]),
    st.one_of(st.booleans(), COUNTS, FRACTIONS, st.text(st.characters(codec="ascii"))),
)


PLANS = st.builds(
    EnsembleConfig,
    st.lists(st.builds(EncoderConfig, OPTIONS, TRAININGS, FRACTIONS), min_size=1, max_size=3).map(
        tuple
    ),
    FRACTIONS,
)


@given(
    st.builds(
        FitConfig,
        sampler=st.builds(
            SamplerConfig,
            quantiles=st.lists(FRACTIONS, min_size=1, max_size=3).map(tuple),
            base_score=st.just("prior") | FRACTIONS,
            sweeps=COUNTS,
            penalty=FRACTIONS,
            prior_pairs=COUNTS,
            tie_break=st.none() | st.just("link"),
            cap=st.none() | COUNTS,
            index_past=st.none() | COUNTS,
        ),
        crossfit=COUNTS,
        positives=COUNTS,
        min_probability=FRACTIONS,
        num_positives_per_step=st.none() | COUNTS,
        num_links_per_step=COUNTS,
        candidate_weight=FRACTIONS,
        ensembles=st.lists(PLANS, min_size=1, max_size=3).map(tuple),
        stop_early=st.booleans(),
        downweight=FRACTIONS,
        self_training_threshold=FRACTIONS,
        signals=st.booleans(),
    )
)
def test_any_recipe_survives_a_file(recipe: FitConfig) -> None:
    for through in THROUGH:
        assert FitConfig.from_dict(through(recipe)) == recipe
    for plan in recipe.ensembles:
        stored = tomllib.loads(to_toml({"plan": to_builtin(asdict(plan))}))["plan"]
        assert EnsembleConfig.from_dict(stored) == plan


def test_a_recipe_from_before_top_k_mode_is_exact() -> None:
    stored = through_json(RECIPES["nodes gcn"])
    for name in ("cap", "index_past"):
        del stored["sampler"][name]
    assert FitConfig.from_dict(stored) == RECIPES["nodes gcn"]
    assert FitConfig.from_dict(stored).sampler.cap is None


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda stored: stored.pop("ensembles"), "it lacks 'ensembles'"),
        (lambda stored: stored.update(ensembles=[]), "A recipe needs at least one ensemble"),
        (
            lambda stored: stored["ensembles"][0].update(encoders=[]),
            "An ensemble needs at least one encoder",
        ),
        (lambda stored: stored["ensembles"][0]["encoders"][0].pop("weight"), "it lacks 'weight'"),
        (lambda stored: stored.update(ensembles=5), "not iterable"),
        (lambda stored: stored.update(surprise=1), "'surprise'"),
        (lambda stored: stored["sampler"].update(surprise=1), "'surprise'"),
        (
            lambda stored: stored["ensembles"][0]["encoders"][0].update(encoder="wide"),
            "cannot be used",
        ),
    ],
)
def test_what_is_no_recipe_is_refused(change: Callable[[Any], object], what: str) -> None:
    stored = through_json(RECIPES["links gcn"])
    change(stored)
    with pytest.raises(UsageError) as refused:
        FitConfig.from_dict(stored)
    assert what in str(refused.value)
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (FitConfig(positives=0), "positives=0 must be at least 1"),
        (FitConfig(min_probability=1.5), "min_probability=1.5 must be between 0 and 1"),
        (FitConfig(min_probability=math.nan), "min_probability=nan must be between 0 and 1"),
        (FitConfig(downweight=0.0), "downweight=0.0 must be above 0 and at most 1"),
        (FitConfig(downweight=1.5), "downweight=1.5 must be above 0 and at most 1"),
        (FitConfig(downweight=math.nan), "downweight=nan must be above 0 and at most 1"),
        (
            FitConfig(self_training_threshold=0.4),
            "self_training_threshold=0.4 must be between 0.5 and 1",
        ),
        (
            FitConfig(self_training_threshold=math.nan),
            "self_training_threshold=nan must be between 0.5 and 1",
        ),
        (FitConfig(num_positives_per_step=0), "num_positives_per_step=0 must be at least 1"),
        (FitConfig(num_links_per_step=-1), "num_links_per_step=-1 must be at least 0"),
        (FitConfig(hops=0), "hops=0 must be at least 1"),
        (FitConfig(sampler=SamplerConfig(sweeps=0)), "sweeps=0"),
        (
            FitConfig(
                ensembles=(
                    EnsembleConfig(),
                    EnsembleConfig(
                        (EncoderConfig(), EncoderConfig(training=TrainingConfig(epochs=0)))
                    ),
                )
            ),
            "epochs=0 must be at least 1",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_named(recipe: FitConfig, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        recipe.validated()


def test_a_recipe_from_before_there_were_batches() -> None:
    stored = through_json(RECIPES["nodes gcn"])
    for member in stored["ensembles"][0]["encoders"]:
        del member["training"]["batch"]
    assert FitConfig.from_dict(stored) == RECIPES["nodes gcn"]


def test_a_plan_is_embedded_in_batches_if_a_member_is() -> None:
    mini = BatchConfig((10,))
    members = tuple(
        EncoderConfig(training=TrainingConfig(batch=batch)) for batch in (BatchConfig(), mini)
    )
    assert EnsembleConfig(members).batch == mini
    assert EnsembleConfig(members[:1]).batch == BatchConfig()


def test_a_change_reaches_every_member_of_every_plan() -> None:
    members = tuple(EncoderConfig({"width": width}) for width in (4, 8, 16))
    recipe = FitConfig(
        ensembles=(EnsembleConfig(members[:1]), EnsembleConfig(members[1:], 2.0)), stop_early=True
    )
    changed = recipe.map_encoders(lambda member: replace(member, weight=0.5))
    assert [[member.weight for member in plan.encoders] for plan in changed.ensembles] == [
        [0.5],
        [0.5, 0.5],
    ]
    assert (
        changed.map_encoders(lambda member: replace(member, weight=1.0)) == recipe
    )  # and nothing else


# The paper to the letter
def test_the_literal_recipe_is_the_paper_s() -> None:
    recipe = FitConfig(
        crossfit=4,
        positives=7,
        min_probability=0.9,
        num_links_per_step=3,
        candidate_weight=0.2,
        ensembles=(
            EnsembleConfig((EncoderConfig({"width": 3}), EncoderConfig()), 1.0),
            EnsembleConfig(),
        ),
        stop_early=True,
        downweight=0.5,
        self_training_threshold=0.9,
        signals=True,
        hops=2,
    ).as_in_paper("gcn")
    assert recipe.positives == 7
    assert (recipe.crossfit, recipe.num_positives_per_step, recipe.num_links_per_step) == (
        0,
        None,
        0,
    )
    assert (recipe.min_probability, recipe.candidate_weight) == (0.0, 1.0)
    assert (recipe.downweight, recipe.self_training_threshold) == (1.0, 1.0)
    assert not recipe.stop_early
    assert not recipe.signals
    assert recipe.sampler == SamplerConfig(
        (0.99,), 0.0, sweeps=1, prior_pairs=0, tie_break=None, printed_relations=True
    )
    assert recipe.hops == 2
    ((member,),) = (plan.encoders for plan in recipe.ensembles)
    assert recipe.ensembles[0].attributes == 0.0
    training = member.training
    assert (training.similarity, training.temperature) == ("inner", 1.0)
    assert (training.anchors, training.link_dropout) == (None, 0.0)
    assert member.encoder == {"layers": 2, "hops": 1}


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_literal_fit_counts_all_labelled_pairs_and_minimises_equation_1(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = small_graph(40)
    side = training_data(graph, small_split(graph, task))
    recipe = make_task(task).recipe("gcn").as_in_paper("gcn")
    recipe = recipe.map_encoders(
        lambda m: replace(
            m, encoder={"width": 4, "dropout": 0.0}, training=replace(m.training, epochs=2)
        )
    )
    steps: list[tuple[Tensor, dict[str, Any], float]] = []

    def spy(z: Tensor, positives: Tensor, negatives: Tensor, **how: Any) -> Tensor:
        loss = contrastive_loss(z, positives, negatives, **how)
        drawn = how | {"positives": positives, "negatives": negatives}
        steps.append((z.detach(), drawn, loss.item()))
        return loss

    monkeypatch.setattr("xtcl.training.trainer.unchecked_loss", spy)
    fitted = fit_task(side, make_task(task), recipe, FitOptions()).fitted
    known = side.labelled if task == "nodes" else np.unique(side.graph.edges)
    assert fitted.sampler.counts_.counts.sum() == len(known) * (len(known) - 1)
    *_, (z, drawn, loss) = steps
    table = fitted.positives
    assert drawn["anchors"].tolist() == list(range(40))
    pulled = [[v for v in row if v >= 0] for row in drawn["positives"].tolist()]
    assert pulled == [[v for v in row if v >= 0] for row in table.tolist()]  # all B, in order
    assert torch.equal(drawn["weights"], torch.ones_like(drawn["weights"]))
    losses = []
    for u in range(40):
        below = sum(math.exp(z[u] @ z[n]) for n in drawn["negatives"].tolist() if n != u)
        own = [math.exp(z[u] @ z[p]) for p in table[u].tolist() if p >= 0]
        losses += [-sum(math.log(e / (e + below)) for e in own) / len(own)] if own else []
    assert loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert fitted.losses == (tuple(value for _, _, value in steps[-2:]),)


# Settings under the names of the last release: read from files, accepted in Python for now.

KINDS_CONFIG = (
    BatchConfig,
    TrainingConfig,
    SamplerConfig,
    EncoderConfig,
    EnsembleConfig,
    FitConfig,
)


OLD_FIELDS: dict[Any, dict[str, Any]] = {
    FitConfig: {
        "least_chance": 0.8,
        "draws": 2,
        "link_draws": 3,
        "plans": (EnsembleConfig(attributes=0.3),),
        "doubt": 0.1,
        "sure": 0.9,
    },
    EnsembleConfig: {"members": (EncoderConfig({"width": 4}),)},
    EncoderConfig: {"caution": 2.0},
}


def with_old_names(value: Any) -> Any:
    """Plain settings as the last release wrote them."""
    old_of = {new: old for old, new in SETTINGS.items()}
    if isinstance(value, dict):
        return {old_of.get(name, name): with_old_names(entry) for name, entry in value.items()}
    return [with_old_names(entry) for entry in value] if isinstance(value, list) else value


def test_every_old_name_leads_to_one_that_is_there() -> None:
    names = {name for kind in KINDS_CONFIG for name in dir(kind)}
    names |= {each.name for kind in KINDS_CONFIG for each in fields(kind)}
    assert set(SETTINGS.values()) <= names
    assert not SETTINGS.keys() & {each.name for kind in KINDS_CONFIG for each in fields(kind)}
    assert not SETTINGS.keys() & set(SETTINGS.values())


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("encoder", ["gcn", "gat"])
def test_settings_that_the_last_release_stored_are_read(task: str, encoder: str) -> None:
    recipe = make_task(task).recipe(encoder)
    stored = json.loads(json.dumps(to_builtin(asdict(recipe))))
    old = with_old_names(stored)
    assert "plans" in old
    assert FitConfig.from_dict(old) == FitConfig.from_dict(stored) == recipe


def test_one_setting_under_both_names_is_refused() -> None:
    stored = to_builtin(asdict(FitConfig())) | {"doubt": 0.5}
    with pytest.raises(UsageError, match="'doubt' is the old name of 'downweight'"):
        FitConfig.from_dict(stored)


@pytest.mark.parametrize("kind", OLD_FIELDS)
def test_old_keywords_still_work_and_warn(kind: Any) -> None:
    for old, value in OLD_FIELDS[kind].items():
        message = f"{kind.__name__}: '{old}' is called '{SETTINGS[old]}' now"
        new = kind(**{SETTINGS[old]: value})
        with pytest.warns(DeprecationWarning, match=message) as heard:
            assert kind(**{old: value}) == new
        assert heard[0].filename == __file__
        with pytest.warns(DeprecationWarning, match=message):
            assert replace(kind(), **{old: value}) == new
        with pytest.warns(DeprecationWarning, match=message) as heard:
            assert getattr(new, old) == value
        assert heard[0].filename == __file__


def test_old_methods_still_work_and_warn() -> None:
    recipe = FitConfig()
    with pytest.warns(DeprecationWarning, match="'checked' is called 'validated' now"):
        assert recipe.checked() is recipe  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="'each' is called 'map_encoders' now"):
        assert recipe.each(lambda each: each) == recipe
    with pytest.warns(DeprecationWarning, match="'literal' is called 'as_in_paper' now"):
        assert recipe.literal("gcn") == recipe.as_in_paper("gcn")
    with pytest.warns(DeprecationWarning, match="'from_plain' is called 'from_dict' now"):
        assert FitConfig.from_plain(asdict(recipe)) == recipe  # type: ignore[attr-defined]
    with pytest.warns(DeprecationWarning, match="'steps' is called 'steps_per_epoch' now"):
        assert TrainingConfig().steps(9000) == 2  # type: ignore[attr-defined]


def test_an_unknown_keyword_is_still_an_error() -> None:
    with pytest.raises(TypeError, match="luck"):
        FitConfig(luck=1)  # type: ignore[call-arg]
    assert not hasattr(FitConfig(), "luck")
    assert config.__doc__


# One strategy of positives for every encoder.


WIDE = EncoderConfig({"width": 16})


def with_encoders(*encoders: EncoderConfig) -> FitConfig:
    return FitConfig(ensembles=(EnsembleConfig(encoders, attributes=1.0), EnsembleConfig((WIDE,))))


NAMED = with_encoders(
    replace(WIDE, positives="uniform"),
    replace(WIDE, positives="learned"),
    replace(WIDE, positives="uniform", weight=0.5),
    replace(WIDE, positives="learned", messages="likely"),
    WIDE,
)


@pytest.mark.parametrize(
    ("name", "learns"), [("learned", True), ("learned+uniform", True), ("same-label", False)]
)
def test_with_a_strategy_every_encoder_is_there_once(name: str, learns: bool) -> None:
    changed = NAMED.with_strategy(name, learns=learns)
    over_likely = [replace(WIDE, positives=name, messages="likely")] if learns else []
    expected = (
        replace(WIDE, positives=name),  # the one for another strategy beside it is left out
        replace(WIDE, positives=name, weight=0.5),
        *over_likely,
        WIDE,  # that of the recipe, whichever it is
    )
    ensembles = (EnsembleConfig(expected, attributes=1.0), EnsembleConfig((WIDE,)))
    assert changed == replace(NAMED, strategy=name, ensembles=ensembles)
    assert changed.with_strategy(name, learns=learns) == changed


def test_encoders_without_a_strategy_of_their_own_stay_as_they_are() -> None:
    found = 0
    for recipe in RECIPES.values():
        own = [each.positives for plan in recipe.ensembles for each in plan.encoders]
        if any(own):  # hidden labels choose: tried above and below
            continue
        changed = recipe.with_strategy("uniform", learns=False)
        assert changed == replace(recipe, strategy="uniform")
        found += 1
    assert found == len(RECIPES) - 3  # those of nodes, with each encoder


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
def test_the_default_for_nodes_with_one_strategy(encoder: str) -> None:
    """The encoder over likely links stays where the strategy learns, those of the first always."""
    recipe = make_task("nodes").recipe(encoder)
    encoders = recipe.ensembles[0].encoders
    assert all(each.positives for each in encoders)
    *uniform, learned, likely = encoders
    assert [each.messages for each in encoders] == ["links"] * (len(uniform) + 1) + ["likely"]
    assert {each.positives for each in uniform} != {learned.positives}
    for name, learns in (("learned", True), ("uniform", False), ("learned+uniform", True)):
        changed = recipe.with_strategy(name, learns=learns).ensembles[0].encoders
        kept = (*uniform, likely) if learns else uniform
        assert changed == tuple(replace(each, positives=name) for each in kept)


def test_the_default_for_nodes_is_that_of_hidden_labels() -> None:
    for encoder in ("gcn", "gat", "custom"):
        nodes, links = make_task("nodes"), make_task("links")
        assert nodes.recipe(encoder) == nodes.named_recipe(config.HIDDEN_LABELS, encoder)
        assert nodes.recipe(encoder) != nodes.named_recipe(config.FIXED_RULES, encoder)
        assert nodes.recipe(encoder).hidden_parts == 3
        assert nodes.named_recipe(config.FIXED_RULES, encoder).hidden_parts == 0
        assert links.recipe(encoder) == links.named_recipe(config.FIXED_RULES, encoder)
        quick = nodes.named_recipe(config.QUICK, encoder)
        assert (quick.strategy, quick.heads) == ("uniform", ("logistic",))


def test_encoders_over_likely_links_alone_need_a_strategy_that_learns() -> None:
    alone = with_encoders(replace(WIDE, positives="learned", messages="likely"))
    assert alone.with_strategy("learned", learns=True) == replace(alone, strategy="learned")
    with pytest.raises(UsageError, match="needs at least one encoder"):
        alone.with_strategy("uniform", learns=False)


def test_the_named_recipes_survive_a_file() -> None:
    task = make_task("nodes")
    for name in config.RECIPES:
        for encoder in ("gcn", "gat", "custom"):
            recipe = replace(task.named_recipe(name, encoder), metric="macro_f1")
            for through in THROUGH:
                assert FitConfig.from_dict(through(recipe)) == recipe
            assert recipe.validated() is recipe


def test_as_in_the_paper_all_relations_choose_positives() -> None:
    """Hidden labels give each encoder a strategy of its own, which the paper has not."""
    nodes = make_task("nodes")
    for name in RECIPE_NAMES:
        recipe = nodes.named_recipe(name, "gcn")
        assert recipe.as_in_paper("gcn") == nodes.named_recipe(FIXED_RULES, "gcn").as_in_paper(
            "gcn"
        )
    mixed = replace(nodes.named_recipe(FIXED_RULES, "gcn"), strategy="uniform")
    assert mixed.as_in_paper("gcn").strategy == "uniform"
