"""Help, completion, and the commands that list what there is."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import re
from pathlib import Path
from typing import Any

import pytest
from small_runs import python, small_graph
from small_stores import open_or_compute
from typer.testing import CliRunner

import xtcl
from xtcl.baselines import HOMES, METHODS
from xtcl.cli.evaluate import EXPERIMENT_NAMES
from xtcl.cli.listings import OPTIONAL_PACKAGES
from xtcl.cli.main import app
from xtcl.graph.datasets.load import DATASETS
from xtcl.lab.experiments import EXPERIMENTS
from xtcl.relations.link import Link
from xtcl.relations.pagerank import PageRank
from xtcl.relations.registry import relation_names
from xtcl.relations.store.relation_store import RelationStore, StoreEntry
from xtcl.relations.view import TrainingView
from xtcl.runs.config_file import read_recipe

COMMANDS = [
    "fit",
    "check",
    "predict",
    "embed",
    "links",
    "explain",
    "report",
    "evaluate",
    "tune",
    "reproduce",
    "datasets",
    "relations",
    "methods",
    "recipe",
    "doctor",
]


def output(*arguments: str) -> str:
    result = CliRunner().invoke(
        app, list(arguments), catch_exceptions=False, env={"COLUMNS": "200", "XTCL_DATA": ""}
    )
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def read_json(*arguments: str) -> Any:
    return json.loads(output(*arguments, "--json"))


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str, flag: str) -> None:
    text = output(command, flag)
    assert "Usage:" in text
    assert f"Example: xtcl {command}" in text


def test_the_commands_are_listed_and_none_is_forgotten() -> None:
    text = output("--help")
    for command in COMMANDS:
        assert command in text
    assert {c.name or c.callback.__name__ for c in app.registered_commands if c.callback} == set(
        COMMANDS
    )


def test_version() -> None:
    assert output("--version").strip() == xtcl.__version__


def test_datasets() -> None:
    found = read_json("datasets")
    assert [entry["name"] for entry in found] == list(DATASETS)
    cora = found[0]
    assert cora == {
        "name": "cora",
        "source": "package",
        "nodes": 2708,
        "edges": 5278,
        "classes": 7,
        "attributes": 1433,
        "available": True,
    }
    text = output("datasets")
    assert "2,708" in text
    assert all(name in text for name in DATASETS)


def test_stored_relations(tmp_path: Path) -> None:
    store = RelationStore(tmp_path)
    view = TrainingView.of(small_graph())
    for relation in (Link(), PageRank(alpha=0.5)):
        open_or_compute(store, view, relation, (0.9,)).close()
    found = read_json("relations", "--store", str(tmp_path))
    assert {(entry["relation"], entry["nodes"]) for entry in found} == {
        ("link", 80),
        ("pagerank", 80),
    }
    assert set(found[0]) == {field.name for field in dataclasses.fields(StoreEntry)}
    text = output("relations", "--store", str(tmp_path))
    assert "alpha=0.5" in text
    for entry in found:
        assert f"{entry['bytes']:,}" in text
        assert f"{entry['pairs']:,}" in text


def test_a_store_with_a_folder_called_like_a_file(tmp_path: Path) -> None:
    open_or_compute(RelationStore(tmp_path), TrainingView.of(small_graph()), Link(), (0.9,)).close()
    (tmp_path / "old.parquet").mkdir()
    with pytest.warns(UserWarning, match=r"'.*old\.parquet' is no file of the relation store"):
        (entry,) = read_json("relations", "--store", str(tmp_path))
    assert entry["relation"] == "link"


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["relations", "--store", str(tmp_path / "nothing")])
    assert result.exit_code == 3
    assert "There is no relation store in" in result.stderr


def test_relations() -> None:
    found = read_json("relations")
    assert [entry["name"] for entry in found] == list(relation_names())
    assert all(set(entry) == {"name", "title", "reads", "parameters"} for entry in found)
    by_name = {entry["name"]: entry for entry in found}
    assert by_name["pagerank"]["parameters"] == {"alpha": 0.85}
    assert by_name["link"]["reads"] == ["links"]
    text = output("relations")
    assert all(name in text for name in relation_names())


def test_methods() -> None:
    found = read_json("methods")
    assert [entry["name"] for entry in found] == [*METHODS, "naive-xgboost"]
    assert all(set(entry["tasks"]) <= {"nodes", "links"} for entry in found)
    assert found[0]["command"] == "xtcl evaluate --method xtcl-gcn"
    assert found[-1] == {
        "name": "naive-xgboost",
        "title": "Naive XGBoost",
        "tasks": [],
        "command": "xtcl reproduce time",
    }
    text = output("methods")
    assert all(name in text for name in METHODS)
    assert re.search(r"naive-xgboost +Naive XGBoost +none .*xtcl reproduce time", text)
    assert "`" not in text  # descriptions are for people who have not read the code


def test_doctor() -> None:
    found = read_json("doctor")
    assert set(found) == {"versions", "optional", "devices", "data"}
    assert found["versions"]["xtcl"] == xtcl.__version__
    assert not any(value.startswith("missing") for value in found["versions"].values())
    assert "cora" in found["data"]["data sets here"]
    text = output("doctor")
    assert "torch" in text
    assert "cpu cores" in text


@pytest.mark.parametrize("way", ["option", "variable"])
def test_doctor_reports_a_data_folder_that_is_not_there(way: str, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    arguments, variable = (["--data", nowhere], "") if way == "option" else ([], nowhere)
    result = CliRunner().invoke(
        app, ["doctor", "--json", *arguments], catch_exceptions=False, env={"XTCL_DATA": variable}
    )
    assert result.exit_code == 0, result.stderr
    listing = json.loads(result.stdout)["data"]
    assert f"{nowhere} does not exist" in listing["folder"]
    assert "cora" in listing["data sets here"]


def test_doctor_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    def version(name: str) -> str:
        if name == "pyarrow":
            raise importlib.metadata.PackageNotFoundError
        return "1.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert read_json("doctor")["versions"]["pyarrow"] == "missing: pip install pyarrow"


# Help fits on a screen, and the shell completes commands and options.

LINES, COLUMNS = 45, 80


COMMANDS_HELP = [
    found.name or found.callback.__name__ for found in app.registered_commands if found.callback
]


def shown(*arguments: str) -> list[str]:
    result = CliRunner().invoke(
        app, [*arguments, "--help"], catch_exceptions=False, env={"COLUMNS": str(COLUMNS)}
    )
    assert result.exit_code == 0
    return result.stdout.splitlines()


def test_names_are_in_the_help() -> None:
    assert tuple(EXPERIMENTS) == EXPERIMENT_NAMES
    for command, names in (("reproduce", EXPERIMENTS), ("evaluate", HOMES)):
        words = set(re.findall(r"[\w-]+", " ".join(shown(command))))
        assert words.issuperset(names)


@pytest.mark.parametrize("command", ["evaluate", "reproduce"])
def test_a_help_with_names_imports_nothing_heavy(command: str) -> None:
    code = f"""
import sys
from xtcl.cli.main import app
try:
    app(["{command}", "--help"])
finally:
    assert "torch" not in sys.modules
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("task", ["nodes", "links"])
@pytest.mark.parametrize("encoder", ["gcn", "gat"])
@pytest.mark.parametrize("sampler", ["xtcl", "paper"])
def test_a_recipe_is_read_as_it_was_printed(
    task: str, encoder: str, sampler: str, tmp_path: Path
) -> None:
    options = ["--task", task, "--encoder", encoder, "--sampler", sampler]
    file = tmp_path / "recipe.toml"
    file.write_text(output("recipe", *options))
    stored = read_recipe(file, task, encoder)
    expected = xtcl.XTCL(task, encoder, sampler=sampler).resolved_recipe()
    assert (stored.recipe, stored.tuned_seed) == (expected, None)
    assert xtcl.XTCL(task, encoder, recipe=stored.recipe).resolved_recipe() == expected
    listing = read_json("recipe", *options)
    assert (listing["task"], listing["encoder"]) == (task, encoder)
    assert listing["recipe"] == json.loads(json.dumps(dataclasses.asdict(expected)))


def test_a_recipe_with_epochs() -> None:
    listing = read_json("recipe", "--epochs", "7")["recipe"]
    epochs = [each["training"]["epochs"] for each in listing["ensembles"][0]["encoders"]]
    assert set(epochs) == {7}
    wrong = CliRunner().invoke(app, ["recipe", "--sampler", "printed"])
    assert wrong.exit_code == 2
    assert "sampler='printed' must be 'xtcl' or 'paper'" in wrong.stderr


@pytest.mark.parametrize("command", COMMANDS_HELP)
def test_the_help_of_a_command_fits_on_a_screen(command: str) -> None:
    lines = shown(command)
    assert len(lines) <= LINES, "shorten the texts of its options, or the docstring"
    assert max(map(len, lines)) <= COLUMNS
    assert not any("<bool>" in line for line in lines)
    assert any(line.strip().startswith(f"Example: xtcl {command}") for line in lines)


def test_the_help_of_all_fits_on_a_screen() -> None:
    lines = shown()
    assert len(lines) <= LINES
    assert not any("<bool>" in line for line in lines)


def completed(words: str, shell: str = "bash") -> list[str]:
    """What a shell offers after `words`."""
    typed = words.split(" ")
    asked = {
        "_XTCL_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(typed) - 1),
        "_TYPER_COMPLETE_ARGS": words,  # zsh and fish
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    result = CliRunner().invoke(app, [], prog_name="xtcl", env=asked)
    return re.findall(r"[\w-]+", result.stdout)


def test_the_shell_completes_commands() -> None:
    assert completed("xtcl pre") == ["predict"]
    assert set(COMMANDS_HELP) <= set(completed("xtcl "))


def test_the_shell_completes_options_and_their_values() -> None:
    assert completed("xtcl fit --la") == ["--label"]
    assert completed("xtcl fit --task ") == ["nodes", "links"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_too(shell: str) -> None:
    assert "predict" in completed("xtcl pre", shell)


def test_doctor_knows_what_the_extras_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    text = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "100"}).stdout
    for name, use in OPTIONAL_PACKAGES.items():
        assert f"missing: pip install {name} (for {use})" in text
