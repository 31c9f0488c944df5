"""`xtcl evaluate`: one JSON object as agreed, or a line for people."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_runs import notes, shrink_recipes, small_graph
from typer.testing import CliRunner, Result

from xtcl.cli.main import app
from xtcl.graph.graph import Graph

pytestmark = pytest.mark.slow


KEYS = ["dataset", "task", "method", "metric", "mean", "stderr", "runs", "seeds", "seconds"]


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "small.npz"
    small_graph().save(path)
    return path


def evaluate(graph: Path | str, *options: str) -> Result:
    arguments = ["evaluate", str(graph), "--device", "cpu", *options]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("task", "method", "metric"),
    [("nodes", "xtcl-gcn", "accuracy"), ("links", "xtcl-gat", "auc"), ("links", "logistic", "auc")],
)
def test_the_agreed_object(graph_file: Path, task: str, method: str, metric: str) -> None:
    options = ["--task", task, "--method", method, "--splits", "2", "--seed", "5", "--json"]
    result = evaluate(graph_file, *options)
    assert result.exit_code == 0, result.stderr
    assert notes(result.stderr) == ""
    assert "done in" in result.stderr  # a log file is not empty
    output = json.loads(result.stdout)
    assert list(output) == [*KEYS, "metrics"]
    assert output["metrics"][metric] == {name: output[name] for name in ("mean", "stderr", "runs")}
    assert result.stdout.count("\n") == 1
    assert (output["dataset"], output["task"]) == (small_graph().name, task)
    assert (output["method"], output["metric"], output["seeds"]) == (method, metric, [5, 6])
    runs = output["runs"]
    assert len(runs) == len(output["seconds"]) == 2
    assert all(1 < figure <= 100 for figure in runs)  # percent, not fractions
    assert output["mean"] == pytest.approx(np.mean(runs), abs=1e-4)
    assert output["stderr"] == pytest.approx(abs(runs[0] - runs[1]) / 2, abs=1e-4)


def test_defaults_are_five_splits_from_seed_0(graph_file: Path) -> None:
    output = json.loads(evaluate(graph_file, "--method", "logistic", "--json").stdout)
    assert output["seeds"] == [0, 1, 2, 3, 4]
    assert (output["task"], output["method"]) == ("nodes", "logistic")
    again = json.loads(evaluate(graph_file, "--method", "LOGISTIC", "--json").stdout)
    assert again["runs"] == output["runs"]


def test_a_cap_is_for_our_own_methods(graph_file: Path) -> None:
    one = ("--splits", "1", "--json")
    exact, capped = (
        json.loads(evaluate(graph_file, *one, *options).stdout)
        for options in ((), ("--cap", "1000"))
    )
    assert capped["runs"] == exact["runs"]
    refused = evaluate(graph_file, *one, "--method", "logistic", "--cap", "9")
    assert refused.exit_code == 2
    assert (
        "--cap is for xtcl-gcn, xtcl-gat, xtcl-paper and xtcl-paper-gat: logistic has no recipe."
        in refused.stderr
    )


def test_epochs_are_for_our_own_methods(graph_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = ("--splits", "1", "--json")
    shrink_recipes(monkeypatch, epochs=30)
    several = evaluate(graph_file, *one, "--epochs", "2")
    shrink_recipes(monkeypatch, epochs=2)
    assert (
        json.loads(several.stdout)["runs"] == json.loads(evaluate(graph_file, *one).stdout)["runs"]
    )
    refused = evaluate(graph_file, *one, "--method", "gcn", "--epochs", "9")
    assert refused.exit_code == 2
    assert "--epochs is for xtcl-gcn, xtcl-gat" in refused.stderr
    assert "gcn has no recipe." in refused.stderr


def test_a_recipe_does_not_go_by_the_name_of_the_paper(graph_file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("", encoding="utf-8")
    refused = evaluate(
        graph_file, "--method", "xtcl-paper", "--config", str(tmp_path / "mine.toml")
    )
    assert refused.exit_code == 2
    assert "use --method xtcl-gcn" in refused.stderr


@pytest.mark.parametrize("name", ["plain", "[/bold]", "[red]x"])
def test_a_line_for_people(tmp_path: Path, name: str) -> None:
    graph = small_graph()
    Graph.from_arrays(graph.attributes, graph.edges, graph.labels, name=name).save(
        tmp_path / "graph.npz"
    )
    result = evaluate(tmp_path / "graph.npz", "--method", "logistic", "--splits", "2")
    assert result.exit_code == 0
    assert f"logistic on {name}, nodes: accuracy" in result.stdout
    assert "over 2 split(s)" in result.stdout
    assert "runs: " in result.stdout
    assert notes(result.stderr) == ""


def test_one_split_has_no_standard_error() -> None:
    result = evaluate("cora", "--method", "logistic", "--splits", "1")
    assert result.exit_code == 0, result.stderr
    assert "±" not in result.stdout


def test_the_packaged_data_set_by_name_in_any_case() -> None:
    output = json.loads(evaluate("Cora", "--method", "logistic", "--splits", "1", "--json").stdout)
    assert output["dataset"] == "cora"
    assert output["mean"] > 60


def test_an_interrupt_is_130(graph_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("xtcl.model_selection.evaluation.compare", interrupted)
    result = evaluate(graph_file)
    assert result.exit_code == 130
    assert result.stdout == ""
    assert "Interrupted. Nothing is kept: the same command starts anew." in result.stderr


def test_several_methods_and_their_differences(graph_file: Path) -> None:
    options = ("--method", "gcn,Logistic,gcn,propagation", "--splits", "2")
    result = evaluate(graph_file, *options, "--json")
    assert result.exit_code == 0, result.stderr
    assert "gcn: training GCN" in result.stderr
    output = json.loads(result.stdout)
    assert list(output) == ["dataset", "task", "metric", "methods", "differences"]
    names = ["gcn", "logistic", "propagation"]
    assert [each["method"] for each in output["methods"]] == names
    alone = json.loads(evaluate(graph_file, "--method", "gcn", "--splits", "2", "--json").stdout)
    assert output["methods"][0] | {"seconds": 0} == alone | {"seconds": 0}
    assert [list(each) for each in output["differences"]] == [
        ["method", "to", "mean", "stderr", "runs"]
    ] * 2
    shown = evaluate(graph_file, *options)
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["method", "accuracy", "(%)", "minus", "gcn"]
    assert [line.split()[0] for line in lines[1:4]] == names
    for line, each, difference in zip(
        lines[2:4], output["methods"][1:], output["differences"], strict=True
    ):
        assert f"{each['mean']:.2f} ± {each['stderr']:.2f}" in line
        assert f"{difference['mean']:+.2f} ± {difference['stderr']:.2f}" in line
    assert "2 split(s). ± is the standard error" in shown.stdout


def test_another_metric(graph_file: Path) -> None:
    options = ("--splits", "2", "--metric", "log_loss")
    shown = evaluate(graph_file, "--method", "logistic", *options)
    output = json.loads(evaluate(graph_file, "--method", "logistic", *options, "--json").stdout)
    assert output["metric"] == "log_loss"
    assert f"log_loss {output['mean']:.4f} ± {output['stderr']:.4f} over" in shown.stdout
    table = evaluate(graph_file, "--method", "logistic,gcn", *options).stdout
    assert "log_loss (less is better)" in table
    assert f"{output['mean']:.4f}" in table


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--metric", "auc"), "There is no metric 'auc' of nodes."),
        (("--metric", "roc_auc"), "Metric 'roc_auc' is for two classes, and graph"),
        (("--method", "logistic,dgc"), "There is no method 'dgc'. Did you mean 'dgcn'?"),
        (("--method", "gcn,sscl", "--task", "links"), "SSCL has no task 'links'."),
        (("--method", "gcn,logistic", "--epochs", "3"), "gcn has no recipe."),
    ],
)
def test_several_methods_are_checked_first(
    graph_file: Path, options: tuple[str, ...], sentence: str
) -> None:
    result = evaluate(graph_file, *options)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "done in" not in result.stderr


def test_options_change_only_what_has_a_recipe(graph_file: Path) -> None:
    options = ("--epochs", "2", "--splits", "1", "--json")
    both = json.loads(evaluate(graph_file, "--method", "xtcl-gcn,logistic", *options).stdout)
    ours = json.loads(evaluate(graph_file, *options).stdout)
    assert both["methods"][0]["runs"] == ours["runs"]


def test_repairs_are_said_on_stderr(tmp_path: Path) -> None:
    graph = small_graph()
    loops = np.array([[0, 1], [0, 1]])
    repaired = graph.with_edges(np.concatenate([graph.edges, loops], axis=1))
    repaired.save(tmp_path / "g.npz")
    arguments = ["evaluate", str(tmp_path / "g.npz"), "--method", "logistic", "--splits", "1"]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0
    assert "from a node to itself were dropped" in result.stderr
    assert "dropped" not in result.stdout
