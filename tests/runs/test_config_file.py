"""A recipe through a TOML file and back, and files that hold none."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_runs import small_graph, small_model, small_split

from xtcl.config import FitConfig
from xtcl.errors import DataError, UsageError
from xtcl.model_selection.search_space import apply_values, parameters_of
from xtcl.runs.config_file import read_recipe, to_toml, write_tuned
from xtcl.tasks import make_task

EVERY = [(task, encoder) for task in ("nodes", "links") for encoder in ("gcn", "gat")]


def described(task: str, encoder: str) -> dict[str, object]:
    return {"task": task, "encoder": encoder, "seed": 7}


def written(path: Path, recipe: FitConfig | None = None) -> Path:
    chosen = recipe or make_task("nodes").recipe("gcn")
    write_tuned(path, described("nodes", "gcn"), chosen)
    return path


@pytest.mark.parametrize(("task", "encoder"), EVERY)
def test_recipes_come_back_as_they_were(task: str, encoder: str, tmp_path: Path) -> None:
    default = make_task(task).recipe(encoder)
    parameters = parameters_of(task, default)
    far = apply_values(
        default, parameters, {parameter.name: parameter.values[-1] for parameter in parameters}
    )
    for recipe in (
        default,
        far,
        default.as_in_paper(encoder),
        replace(default, num_positives_per_step=None),
    ):
        path = tmp_path / "tuned.toml"
        write_tuned(path, described(task, encoder), recipe)
        stored = read_recipe(path, task, encoder)
        assert stored.recipe == recipe
        assert stored.tuned_seed == 7
    assert [path.name for path in tmp_path.iterdir()] == ["tuned.toml"]


@pytest.mark.parametrize(("task", "encoder"), [("nodes", "gcn"), ("links", "gat")])
def test_the_config_of_a_run_serves_too(task: str, encoder: str, tmp_path: Path) -> None:
    graph = small_graph()
    model = small_model(task, encoder, temperature=0.4, quantiles=(0.9, 0.99))
    model.fit(graph, small_split(graph, task)).save(tmp_path)
    stored = read_recipe(tmp_path / "config.toml", task, encoder)
    assert stored.recipe == model.recipe_
    assert stored.tuned_seed is None


@pytest.mark.parametrize(("task", "encoder"), [("links", "gcn"), ("nodes", "gat")])
def test_a_recipe_for_something_else_is_refused(task: str, encoder: str, tmp_path: Path) -> None:
    path = written(tmp_path / "tuned.toml")
    with pytest.raises(UsageError, match=r"tuned\.toml' is for task 'nodes' with encoder 'gcn'"):
        read_recipe(path, task, encoder)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.toml", tmp_path):
        with pytest.raises(UsageError, match="There is no file"):
            read_recipe(path, "nodes", "gcn")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"what I did this summer",
        b"[recipe]\n",
        b"[tune]\ntask = 'nodes'\nencoder = 'gcn'\nseed = 0\n",
        b"[tune]\ntask = 'nodes'\nencoder = 'gcn'\nseed = 0\n[recipe]\n",
        b"recipe = 3\n[tune]\ntask = 'nodes'\nencoder = 'gcn'\nseed = 0\n",
        b"tune = 3\n",
        b"fit = []\n",
        b"x = " + b"[" * 100_000,
    ],
    ids=lambda content: repr(content[:30]),
)
def test_rubbish_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rubbish.toml"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"rubbish\.toml' holds no recipe"):
        read_recipe(path, "nodes", "gcn")


def member(tables: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = tables["recipe"]["ensembles"][0]["encoders"][0]
    return found


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda t: t["tune"].update(seed="zero"), "zero"),
        (lambda t: t["recipe"].update(crossfit="five"), "recipe.crossfit = 'five' must be a whole"),
        (
            lambda t: t["recipe"].update(positive=20),
            "has no setting 'positive'. Did you mean 'posit",
        ),
        (
            lambda t: t["recipe"]["sampler"].update(quantile=1),
            "recipe.sampler has no setting 'quant",
        ),
        (
            lambda t: t["recipe"].update(hops="far"),
            "recipe.hops = 'far' must be a whole number or ",
        ),
        (lambda t: t["recipe"].update(crossfit=5.5), "recipe.crossfit"),
        (lambda t: t["recipe"].update(positives=True), "recipe.positives"),
        (lambda t: t["recipe"].update(positives=0), "positives=0"),
        (lambda t: t["recipe"].update(stop_early=1), "recipe.stop_early"),
        (lambda t: t["recipe"].update(candidate_weight=float("nan")), "recipe.candidate_weight"),
        (lambda t: t["recipe"].update(surprise=1), "recipe has no setting 'surprise'"),
        (lambda t: t["recipe"].update(ensembles=[]), "at least one ensemble"),
        (
            lambda t: t["recipe"].update(ensembles=["a"]),
            "recipe.ensembles[0] = 'a' must be a table",
        ),
        (lambda t: t["recipe"].update(ensembles=3), "recipe.ensembles = 3 must be a list"),
        (lambda t: t["recipe"].pop("ensembles"), "ensembles"),
        (
            lambda t: t["recipe"]["ensembles"][0].update(attributes="much"),
            "ensembles[0].attributes",
        ),
        (lambda t: t["recipe"]["ensembles"][0].update(encoders=[]), "at least one encoder"),
        (lambda t: t["recipe"]["sampler"].update(sweeps="x"), "recipe.sampler.sweeps"),
        (lambda t: t["recipe"]["sampler"].update(quantiles=["x"]), "sampler.quantiles[0]"),
        (
            lambda t: t["recipe"]["sampler"].update(quantiles=3),
            "sampler.quantiles = 3 must be a list",
        ),
        (lambda t: t["recipe"]["sampler"].update(quantiles=[2.0]), "quantiles"),
        (lambda t: t["recipe"]["sampler"].update(base_score="posterior"), "base_score"),
        (lambda t: t["recipe"]["sampler"].update(tie_break="luck"), "luck"),
        (lambda t: member(t).update(weight="heavy"), "encoders[0].weight"),
        (lambda t: member(t).update(encoder=[1]), ""),
        (lambda t: member(t)["encoder"].update(layers=0), "layers=0"),
        (lambda t: member(t)["encoder"].update(surprise=1), "surprise"),
        (lambda t: member(t)["encoder"].update(width="wide"), ""),
        (lambda t: member(t)["encoder"].update(width=-4), ""),
        (lambda t: member(t)["encoder"].update(dropout=3), "dropout=3"),
        (lambda t: member(t)["encoder"].update(dropout="x"), "dropout=x"),
        (lambda t: member(t)["training"].update(epochs=0), "epochs=0"),
        (lambda t: member(t)["training"].update(epochs=2.5), "training.epochs"),
        (lambda t: member(t)["training"].update(similarity="looks"), "similarity"),
        (lambda t: member(t)["training"].update(temperature=-1.0), "temperature=-1.0"),
    ],
)
def test_settings_that_cannot_be_used_are_named(
    change: Callable[[dict[str, Any]], object], word: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "tuned.toml")
    tables = tomllib.loads(path.read_text())
    change(tables)
    path.write_text(to_toml(tables))
    with pytest.raises(DataError) as refused:
        read_recipe(path, "nodes", "gcn")
    assert f"'{path}' holds no recipe that can be used" in str(refused.value)
    assert word in str(refused.value)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "tuned.toml")
    content = path.read_bytes()
    for length in range(0, len(content) - 1, 7):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"tuned\.toml"):
            read_recipe(path, "nodes", "gcn")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            "[recipe]\npositives = 20\n",
            r"\(it has no table \[fit\], which holds the task and encod",
        ),
        ("[fit]\ntask = 'nodes'\n", r"\(it has no table \[recipe\], which holds the settings\)"),
        ("[fit]\ntask = 'nodes'\n[recipe]\n", r"\(it lacks 'encoder'\)"),
        ("x = ", r"; give a file that `xtcl recipe` or `xtcl tune` wrote, or the config\.toml"),
    ],
)
def test_what_a_file_lacks_is_named(content: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    with pytest.raises(DataError, match=reason):
        read_recipe(path, "nodes", "gcn")
