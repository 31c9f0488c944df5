"""`xtcl tune` and what `--config` makes of the file it writes."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from small_runs import files_of, notes, shrink_recipes, small_graph
from typer.testing import CliRunner, Result

import xtcl
from xtcl.baselines import method as methods
from xtcl.cli.main import app
from xtcl.config import FitConfig
from xtcl.graph.graph import Graph
from xtcl.model_selection import tuning as module
from xtcl.model_selection.evaluation import evaluate, make_split
from xtcl.runs.config_file import read_recipe
from xtcl.tasks import make_task
from xtcl.tasks.fit import fit_task
from xtcl.tasks.training_data import TrainingData, training_data

pytestmark = pytest.mark.slow


USAGE, DATA, INTERRUPTED = 2, 3, 130
Score = Callable[[FitConfig], float]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink_recipes(monkeypatch)


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    small_graph().save(tmp_path / "graph.npz")
    return tmp_path / "graph.npz"


def invoke(*arguments: object) -> Result:
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, words, catch_exceptions=False)


def tune(graph: Path, out: Path, *options: object) -> Result:
    return invoke("tune", graph, "--out", out, "--device", "cpu", *options)


def plant_scores(monkeypatch: pytest.MonkeyPatch, score: Score | None = None) -> list[TrainingData]:
    """Score recipes at no cost, and remember the sides they were to be scored on."""
    sides = []

    def validation_score(side: TrainingData, task: object, recipe: FitConfig, *_: object) -> float:
        sides.append(side)
        return (
            score(recipe)
            if score
            else 1 / (1 + recipe.ensembles[0].encoders[0].training.temperature)
        )

    monkeypatch.setattr(module, "validation_score", validation_score)
    return sides


def test_the_file_holds_search_and_recipe(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_scores(monkeypatch)
    out = tmp_path / "new" / "folder" / "tuned.toml"
    chosen = ["--task", "links", "--encoder", "gat", "--trials", 8, "--rounds", 2, "--seed", 3]
    result = tune(graph_file, out, *chosen, "--json")
    assert result.exit_code == 0, result.stderr
    assert notes(result.stderr) == ""
    assert result.stdout.count("\n") == 1
    output = json.loads(result.stdout)
    stored = tomllib.loads(out.read_text())
    assert list(stored) == ["tune", "recipe"]
    assert stored["tune"] | {"changes": output["changes"], "out": str(out)} == output
    default = make_task("links").recipe("gat")
    usual = default.ensembles[0].encoders[0].training.temperature
    assert output["default_hidden"] == pytest.approx(100 / (1 + usual), abs=1e-4)
    assert output.pop("best_hidden") > output.pop("default_hidden")
    assert "temperature" in output.pop("changes")
    assert output == {
        "graph": small_graph().name,
        "task": "links",
        "encoder": "gat",
        "trials": 8,
        "rounds": 2,
        "seed": 3,
        "metric": "auc",
        "version": xtcl.__version__,
        "out": str(out),
    }
    recipe = read_recipe(out, "links", "gat").recipe
    assert recipe.ensembles[0].encoders[0].training.temperature < usual
    assert [path.name for path in out.parent.iterdir()] == ["tuned.toml"]


def test_a_table_for_people(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_scores(monkeypatch)
    result = tune(graph_file, tmp_path / "tuned.toml", "--trials", 4)
    assert result.exit_code == 0, result.stderr
    for word in ("hidden accuracy (%)", "default", "best of 4", "Changed: ", "temperature 0."):
        assert word in result.stdout
    assert f"--config {tmp_path / 'tuned.toml'}" in result.stdout
    plant_scores(monkeypatch, lambda recipe: 0.5)
    result = tune(graph_file, tmp_path / "again.toml", "--trials", 3)
    assert "Nothing did better than the default." in result.stdout
    default = make_task("nodes").recipe("gcn")
    assert read_recipe(tmp_path / "again.toml", "nodes", "gcn").recipe == default


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_the_search_has_the_training_side_of_the_split_and_no_more(
    task: str, graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = plant_scores(monkeypatch)
    result = tune(graph_file, tmp_path / "t.toml", "--task", task, "--seed", 5, "--trials", 2)
    assert result.exit_code == 0, result.stderr
    graph = small_graph()
    expected = training_data(graph, make_split(graph, task, 5))
    for side in sides:
        assert side.graph.fingerprint() == expected.graph.fingerprint()
        assert side.labelled.tolist() == expected.labelled.tolist()
    assert len(sides) == 2


def test_an_interrupted_search_goes_on(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = plant_scores(monkeypatch)
    whole = tune(graph_file, tmp_path / "whole.toml", "--trials", 5)
    assert whole.exit_code == 0, whole.stderr

    def interrupting(recipe: FitConfig) -> float:
        if len(seen) > 3:
            raise KeyboardInterrupt
        return 1 / (1 + recipe.ensembles[0].encoders[0].training.temperature)

    out = tmp_path / "tuned.toml"
    seen = plant_scores(monkeypatch, interrupting)
    result = tune(graph_file, out, "--trials", 5)
    assert result.exit_code == INTERRUPTED
    assert "the same command goes on" in result.stderr
    assert result.stdout == ""
    assert not out.exists()
    seen = plant_scores(monkeypatch)
    other = tune(graph_file, out, "--trials", 5, "--seed", 1)
    assert other.exit_code == USAGE
    assert "tuned.toml.search' holds another search" in other.stderr
    result = tune(graph_file, out, "--trials", 5)
    assert result.exit_code == 0, result.stderr
    assert len(seen) == 2
    assert out.read_text() == (tmp_path / "whole.toml").read_text()
    assert not out.with_name("tuned.toml.search").exists()


def test_what_tune_refuses(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = plant_scores(monkeypatch)
    out = tmp_path / "tuned.toml"
    before = files_of(tmp_path)
    bare = tmp_path / "bare.npz"
    Graph.from_arrays(small_graph().attributes, small_graph().edges).save(bare)
    for graph, options, code, word in (
        (graph_file, ["--trials", "0"], USAGE, "--trials"),
        (graph_file, ["--rounds", "0"], USAGE, "--rounds"),
        (graph_file, ["--task", "edges"], USAGE, "--task"),
        (graph_file, ["--encoder", "gin"], USAGE, "--encoder"),
        (graph_file, ["--device", "tpu"], USAGE, "There is no device 'tpu'"),
        (graph_file, ["--out", str(graph_file)], USAGE, "is there already"),
        (graph_file, ["--out", str(tmp_path)], USAGE, "is there already"),
        (graph_file, ["--out", str(graph_file / "x")], DATA, "graph.npz"),
        (tmp_path / "nowhere.npz", [], USAGE, "There is no file"),
        (bare, [], DATA, "has no labels"),
    ):
        result = tune(graph, out, *options)
        assert (result.exit_code, result.stdout) == (code, ""), (options, result.stderr)
        assert word in result.stderr
    bare.unlink()
    assert files_of(tmp_path) == before
    assert seen == []


def test_without_optuna_there_is_a_remedy(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    result = tune(graph_file, tmp_path / "tuned.toml")
    assert result.exit_code == USAGE
    assert 'pip install "xtcl[tune]"' in result.stderr
    assert not (tmp_path / "tuned.toml").exists()


def best_recipe(graph_file: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> FitConfig:
    """A recipe other than the default, tuned for nodes with gcn inside split 0."""
    plant_scores(monkeypatch)
    assert tune(graph_file, out, "--trials", 3).exit_code == 0
    recipe = read_recipe(out, "nodes", "gcn").recipe
    assert recipe != make_task("nodes").recipe("gcn")
    return recipe


def test_fit_uses_the_file(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = tmp_path / "tuned.toml"
    recipe = best_recipe(graph_file, tuned, monkeypatch)
    fit = ["fit", graph_file, "--device", "cpu", "--json"]
    result = invoke(*fit, "--config", tuned, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.stderr
    assert notes(result.stderr) == ""
    config = tmp_path / "run" / "config.toml"
    assert read_recipe(config, "nodes", "gcn").recipe == recipe
    assert xtcl.XTCL.load(tmp_path / "run").recipe == recipe
    # The run's own file says the same; the fit repeats to the byte.
    result = invoke(*fit, "--config", config, "--out", tmp_path / "again")
    assert result.exit_code == 0, result.stderr
    ours, again = files_of(tmp_path / "run"), files_of(tmp_path / "again")
    metrics = [json.loads(files.pop("metrics.json")) for files in (ours, again)]
    assert all(each.pop("seconds") > 0 for each in metrics)  # these alone may differ
    assert metrics[0] == metrics[1]
    assert ours == again
    # A finished run of another recipe is another run.
    result = invoke(*fit, "--out", tmp_path / "run", "--resume")
    assert result.exit_code == USAGE
    assert "another graph, seed or setting" in result.stderr


def test_evaluate_uses_the_file(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = tmp_path / "tuned.toml"
    recipe = best_recipe(graph_file, tuned, monkeypatch)
    seen = []

    def spy(side: TrainingData, task: object, given: FitConfig | None, options: object) -> object:
        seen.append(given)
        return fit_task(side, task, given, options)  # type: ignore[arg-type]

    monkeypatch.setattr(methods, "fit_task", spy)
    run = ["evaluate", graph_file, "--device", "cpu", "--splits", "1", "--json"]
    result = invoke(*run, "--config", tuned)
    assert result.exit_code == 0, result.stderr
    assert notes(result.stderr) == ""
    assert seen == [recipe]
    assert invoke(*run).exit_code == 0
    assert seen == [recipe, methods.XTCLGCN().recipe_for("nodes")]
    ours = evaluate(small_graph(), "nodes", methods.XTCLGCN(recipe), splits=1)
    assert json.loads(result.stdout)["runs"] == ours.runs


def test_splits_that_test_what_was_tuned_on_are_said(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = tmp_path / "tuned.toml"
    best_recipe(graph_file, tuned, monkeypatch)
    for command in (
        ["evaluate", graph_file, "--splits", "2"],
        ["fit", graph_file, "--seed", "1", "--out", tmp_path / "run"],
    ):
        result = invoke(*command, "--device", "cpu", "--config", tuned)
        assert result.exit_code == 0, result.stderr
        assert "was tuned inside split 0: other splits test" in result.stderr


def test_files_that_config_refuses(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned, rubbish = tmp_path / "tuned.toml", tmp_path / "rubbish.toml"
    best_recipe(graph_file, tuned, monkeypatch)
    rubbish.write_text("[recipe]\ncrossfit = 3\n")
    out = tmp_path / "run"
    fit = ["fit", graph_file, "--out", out]
    evaluate = ["evaluate", graph_file, "--method"]
    for command, config, code, word in (
        ([*fit], rubbish, DATA, "rubbish.toml' holds no recipe"),
        ([*evaluate, "xtcl-gcn"], rubbish, DATA, "rubbish.toml' holds no recipe"),
        ([*fit, "--encoder", "gat"], tuned, USAGE, "with encoder 'gcn'"),
        ([*fit, "--task", "links"], tuned, USAGE, "is for task 'nodes'"),
        ([*evaluate, "xtcl-gat"], tuned, USAGE, "with encoder 'gcn'"),
        ([*evaluate, "xtcl-gcn", "--task", "links"], tuned, USAGE, "is for task 'nodes'"),
        ([*evaluate, "logistic"], tuned, USAGE, "logistic has no recipe"),
        ([*fit, "--sampler", "paper"], tuned, USAGE, "a recipe of its own"),
        ([*fit], tmp_path / "nowhere.toml", USAGE, "There is no file"),
    ):
        result = invoke(*command, "--config", config, "--device", "cpu")
        assert (result.exit_code, result.stdout) == (code, ""), (command, result.stderr)
        assert word in result.stderr
        assert not out.exists()


def test_a_true_search(graph_file: Path, tmp_path: Path) -> None:
    result = tune(graph_file, tmp_path / "tuned.toml", "--trials", 2, "--rounds", 1, "--json")
    assert result.exit_code == 0, result.stderr
    output = json.loads(result.stdout)
    assert 0 <= output["default_hidden"] <= output["best_hidden"] <= 100
