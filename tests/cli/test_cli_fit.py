"""`xtcl fit`: what it writes, what it prints and where, and that it never overwrites a run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import (
    COUNTING,
    FINDING,
    TRAINING,
    Interrupter,
    Recorder,
    files_of,
    hidden_stages,
    hiding_less,
    shrink_recipes,
    small_graph,
    stages_of,
)
from typer.testing import CliRunner, Result

from xtcl.cli.check import (
    LONG_SECONDS,
    SHORTER,
    TIMED,
    _estimates,
    duration,
    print_plan,
    three_digits,
)
from xtcl.cli.console import Bars
from xtcl.cli.fit import left_out_sentence
from xtcl.cli.main import app
from xtcl.cli.options import TaskName
from xtcl.config import FIXED_RULES, HIDDEN_LABELS
from xtcl.estimator import XTCL
from xtcl.graph.datasets.synthetic import block_model
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.model_selection.controls import QUICK_CONTROLS, advice
from xtcl.planning.memory_plan import NO_LIMIT, MemoryPlan, plan_fit, plan_stages
from xtcl.planning.sizes import Sizes
from xtcl.tasks import make_task
from xtcl.tasks.link_prediction import LinkPrediction
from xtcl.tasks.node_classification import NodeClassification

DEFAULT = NodeClassification().recipe("gcn")


# With `shrink_recipes`: the stages of the first hidden part, of the second, and after the choice.
SMALL = hiding_less(DEFAULT)
FIRST, LATER, LAST = stages_of(SMALL, first=True), stages_of(SMALL), stages_of(SMALL, last=True)
IN_PARTS = [*FIRST, *LATER].count(TRAINING)


FIXED = NodeClassification().named_recipe(FIXED_RULES, "gcn")
JOINED = [TRAINING] * len(FIXED.ensembles[0].encoders)


TRIED = [TRAINING] * len(LinkPrediction().recipe("gcn").ensembles)


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graphs") / "small.npz"
    small_graph().save(path)
    return path


@pytest.fixture(scope="module")
def finished(graph_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of seed 0, to be left as it is."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert fit(graph_file, out).exit_code == 0
    return out


def fit(graph: Path | str, out: Path, *options: str) -> Result:
    arguments = ["fit", str(graph), "--out", str(out), "--device", "cpu", *options]
    return CliRunner().invoke(app, arguments, catch_exceptions=False)


def comparable(folder: Path) -> dict[str, Any]:
    """Every file, `metrics.json` without the seconds."""
    files: dict[str, Any] = dict(files_of(folder))
    metrics = json.loads(files["metrics.json"])
    assert metrics.pop("seconds") > 0
    return files | {"metrics.json": metrics}


@pytest.mark.slow
def test_nodes(graph_file: Path, tmp_path: Path) -> None:
    result = fit(graph_file, tmp_path / "run", "--json", "--seed", "3")
    assert result.exit_code == 0, result.stderr
    output = json.loads(result.stdout)
    graph = small_graph()
    assert graph.labels is not None
    split = NodeSplit.from_json(json.loads((tmp_path / "run" / "split.json").read_text()))
    assert set(output) == {
        "dataset",
        "task",
        "method",
        "metric",
        "seed",
        "test",
        "compared",
        "epochs",
        "seconds",
        "identity",
        "base_rate",
        "choice",
        "out",
    }
    assert output["choice"][0].startswith(f"{len(split.train)} hidden labels decided, ")
    labels = graph.labels[split.test].tolist()
    assert output["base_rate"] == max(labels.count(c) for c in range(3)) / len(labels)
    stored = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert output == stored | {"out": str(tmp_path / "run")}
    assert (output["method"], output["metric"], output["seed"]) == ("xtcl-gcn", "accuracy", 3)
    assert output["compared"] == {"xtcl-gcn": output["test"]["accuracy"]}
    members = NodeClassification().recipe("gcn").ensembles[0].encoders
    assert output["epochs"] == [member.training.epochs for member in members]
    loaded = XTCL.load(tmp_path / "run")
    assert loaded.score(split, graph) == output["test"]["accuracy"]
    ours = XTCL(random_state=3, device="cpu").fit(graph, split)
    np.testing.assert_array_equal(loaded.embedding_, ours.embedding_)
    assert not (tmp_path / "run" / "checkpoint").exists()


@pytest.mark.slow
def test_links_for_people_to_read(graph_file: Path, tmp_path: Path) -> None:
    options = ["--task", "links", "--encoder", "gat", "--sampler", "paper"]
    result = fit(graph_file, tmp_path / "run", *options)
    assert result.exit_code == 0, result.stderr
    assert "test auc (%)" in result.stdout
    assert "xtcl-gat" in result.stdout
    assert "PageRank" in result.stdout
    assert f"Run written to {tmp_path / 'run'}" in result.stdout
    message = "Relation label-distribution was left out: link prediction does not read labels."
    assert message in result.stderr
    assert "left out" not in result.stdout
    split = LinkSplit.from_json(json.loads((tmp_path / "run" / "split.json").read_text()))
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["compared"] == {"xtcl-gat": metrics["test"]["auc"]}
    assert f"{100 * metrics['test']['auc']:.2f}" in result.stdout  # people read percent
    loaded = XTCL.load(tmp_path / "run")
    assert loaded.recipe_.crossfit == 0
    assert loaded.score(split) == metrics["test"]["auc"]


@pytest.mark.slow
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_epochs_in_place_of_the_recipe_s(task: str, graph_file: Path, tmp_path: Path) -> None:
    output = fit(graph_file, tmp_path / "run", "--task", task, "--epochs", "2", "--json")
    assert output.exit_code == 0, output.stderr
    assert set(json.loads(output.stdout)["epochs"]) == {2}
    refused = fit(graph_file, tmp_path / "other", "--epochs", "0")
    assert refused.exit_code == 2


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(graph_file: Path, tmp_path: Path) -> None:
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        assert fit(graph_file, tmp_path / name, "--seed", seed).exit_code == 0
    a, b, c = (comparable(tmp_path / name) for name in "abc")
    assert a == b
    assert a["embeddings.parquet"] != c["embeddings.parquet"]


def test_a_note_of_the_plan_is_printed_once_and_is_no_warning(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan_with_note(sizes: Sizes, budget: int | None) -> MemoryPlan:
        return replace(plan_fit(sizes, budget), notes=("Training goes in mini-batches.",))

    monkeypatch.setattr("xtcl.prepare.plan_fit", plan_with_note)
    result = fit(graph_file, tmp_path, "--epochs", "1")
    assert result.exit_code == 0
    assert result.stderr.count("Training goes in mini-batches.") == 1
    assert "Warning" not in result.stderr


@pytest.mark.slow
def test_memory_changes_nothing_but_its_own_entry(graph_file: Path, tmp_path: Path) -> None:
    fit(graph_file, tmp_path / "a")
    fit(graph_file, tmp_path / "b", "--memory", "2GB")
    a, b = comparable(tmp_path / "a"), comparable(tmp_path / "b")
    assert {name for name in a if a[name] != b[name]} == {"model/model.json"}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_store_changes_nothing(graph_file: Path, tmp_path: Path, task: str) -> None:
    assert fit(graph_file, tmp_path / "plain", "--task", task).exit_code == 0
    store = ("--task", task, "--store", str(tmp_path / "store"), "--store-limit", "1GB")
    for run in ("cold", "warm"):
        assert fit(graph_file, tmp_path / run, *store).exit_code == 0
        assert comparable(tmp_path / run) == comparable(tmp_path / "plain")
    assert list((tmp_path / "store").glob("*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_top_k_mode_with_room_for_all_changes_nothing(
    graph_file: Path, tmp_path: Path, task: str
) -> None:
    assert fit(graph_file, tmp_path / "exact", "--task", task).exit_code == 0
    room = ("--cap", "1000", "--store", str(tmp_path / "store"), "--memory", "4GB")
    result = fit(graph_file, tmp_path / "capped", "--task", task, *room)
    assert result.exit_code == 0
    assert list((tmp_path / "store").glob("*.parquet"))
    exact, capped = comparable(tmp_path / "exact"), comparable(tmp_path / "capped")
    changed = {name for name in exact if exact[name] != capped[name]}
    assert changed == {"config.toml", "metrics.json", "model/model.json"}  # they name the cap


@pytest.mark.slow
def test_a_run_in_top_k_mode_is_read_as_one(graph_file: Path, tmp_path: Path) -> None:
    assert fit(graph_file, tmp_path / "run", "--cap", "3").exit_code == 0
    assert "\ncap = 3\n" in (tmp_path / "run" / "config.toml").read_text()
    model = XTCL.load(tmp_path / "run")
    assert model.sampler_.settings_.cap == 3
    place = int(np.flatnonzero(model.positives_[:, 0] >= 0)[0])
    assert model.explain(place, int(model.positives_[place, 0])).score > -np.inf


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"), [(("--cap", "0"), "--cap"), (("--index-past", "9"), "give a cap")]
)
def test_senseless_caps_are_refused(
    graph_file: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    result = fit(graph_file, tmp_path / "run", *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_limit_needs_a_store(graph_file: Path, tmp_path: Path) -> None:
    result = fit(graph_file, tmp_path / "run", "--store-limit", "1GB")
    assert result.exit_code == 2
    assert "name it with --store" in result.stderr


@pytest.mark.slow
def test_compare_scores_others_on_the_same_split(graph_file: Path, tmp_path: Path) -> None:
    result = fit(graph_file, tmp_path / "run", "--compare", "logistic, gcn,", "--json")
    assert result.exit_code == 0, result.stderr
    compared = json.loads(result.stdout)["compared"]
    assert list(compared) == ["xtcl-gcn", "logistic", "gcn"]
    assert all(0 < figure <= 1 for figure in compared.values())
    from xtcl.baselines import make_method
    from xtcl.model_selection.evaluation import evaluate

    alone = evaluate(small_graph(), "nodes", make_method("logistic"), splits=1, seed=0)
    assert compared["logistic"] == pytest.approx(alone.mean / 100, abs=1e-5)


@pytest.mark.slow
def test_all_metrics_are_shown_beside_the_base_rate(tmp_path: Path) -> None:
    block_model(60, num_classes=2, num_attributes=8, seed=0).save(tmp_path / "two.npz")
    options = (tmp_path / "two.npz", tmp_path / "run", "--epochs", "2")
    shown = fit(*options).stdout
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    test = metrics["test"]
    rows = {
        "largest class (base rate)": f"{100 * metrics['base_rate']:.2f} %",
        "accuracy": f"{100 * test['accuracy']:.2f} %",
        "balanced accuracy": f"{100 * test['balanced_accuracy']:.2f} %",
        "macro F1": f"{100 * test['macro_f1']:.2f} %",
        "log loss": f"{test['log_loss']:.4f}",
        "ROC AUC": f"{100 * test['roc_auc']:.2f} %",
        "average precision": f"{100 * test['average_precision']:.2f} %",
    }
    lines = shown.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("test metric"))
    for line, (name, figure) in zip(lines[start + 1 :], rows.items(), strict=False):
        assert line.startswith(name)
        assert line.removeprefix(name).strip() == figure
    assert lines[start + 1 + len(rows)] == ""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_all_quick_controls_are_ranked_and_do_not_touch_the_fit(
    graph_file: Path, tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_recipes(monkeypatch, epochs=2)
    options = ("--task", task)
    assert fit(graph_file, tmp_path / "plain", *options).exit_code == 0
    result = fit(graph_file, tmp_path / "run", *options, "--compare", "All,gcn")
    assert result.exit_code == 0, result.stderr
    plain, run = comparable(tmp_path / "plain"), comparable(tmp_path / "run")
    assert {name for name in plain if plain[name] != run[name]} == {"metrics.json"}
    metrics = run["metrics.json"]
    compared = metrics["compared"]
    assert set(compared) == {"xtcl-gcn", *QUICK_CONTROLS[task]}
    assert list(compared.values()) == sorted(compared.values(), reverse=True)
    split = json.loads((tmp_path / "run" / "split.json").read_text())
    count = np.shape(split["test"])[-1]
    assert metrics["advice"] == advice(compared, "xtcl-gcn", task, count)
    assert set(metrics) - set(plain["metrics.json"]) == {"advice"}
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(compared)]] == list(compared)
    assert lines[2 + len(compared)] == metrics["advice"]
    again = fit(graph_file, tmp_path / "run", *options, "--compare", "all", "--resume")
    assert metrics["advice"] in again.stdout


@pytest.mark.slow
def test_an_interrupted_comparison_keeps_the_fit(
    graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("xtcl.model_selection.evaluation.score_method", interrupted)
        result = fit(graph_file, tmp_path / "run", "--epochs", "2", "--compare", "gcn")
    assert result.exit_code == 130
    assert "give the same command with --resume" in result.stderr
    assert not (tmp_path / "run" / "metrics.json").exists()
    options = ("--epochs", "2", "--compare", "gcn")
    assert fit(graph_file, tmp_path / "run", *options, "--resume").exit_code == 0
    assert fit(graph_file, tmp_path / "plain", *options).exit_code == 0
    assert comparable(tmp_path / "run") == comparable(tmp_path / "plain")


@pytest.mark.slow
def test_a_finished_run_is_not_overwritten(graph_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    first = fit(graph_file, out, "--json")
    before = files_of(out)
    again = fit(graph_file, out, "--json", "--seed", "5")
    assert again.exit_code == 2
    assert again.stdout == ""
    assert "holds a finished run; choose another --out" in again.stderr
    assert files_of(out) == before
    resumed = fit(graph_file, out, "--json", "--resume")
    assert resumed.exit_code == 0
    assert json.loads(resumed.stdout) == json.loads(first.stdout)
    assert "is finished already" in " ".join(resumed.stderr.split())
    shown = fit(graph_file, out, "--resume")
    assert "xtcl-gcn" in shown.stdout
    assert files_of(out) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [["--seed", "1"], ["--task", "links"], ["--encoder", "gat"], ["--sampler", "paper"]]
)
def test_resume_does_not_show_the_figures_of_another_run(
    graph_file: Path, finished: Path, options: list[str]
) -> None:
    before = files_of(finished)
    result = fit(graph_file, finished, "--resume", *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert f"'{finished}' holds the finished run of another" in result.stderr
    assert "choose another --out" in result.stderr
    assert files_of(finished) == before


@pytest.mark.slow
def test_resume_tells_graphs_apart(finished: Path, tmp_path: Path) -> None:
    small_graph(seed=1).save(tmp_path / "other.npz")
    result = fit(tmp_path / "other.npz", finished, "--resume")
    assert result.exit_code == 2
    assert "another graph" in result.stderr


@pytest.mark.slow
def test_a_relation_without_data_is_told(tmp_path: Path) -> None:
    graph = small_graph()
    Graph.from_arrays(None, graph.edges, graph.labels).save(tmp_path / "bare.npz")
    result = fit(tmp_path / "bare.npz", tmp_path / "run", "--task", "links")
    assert result.exit_code == 0, result.stderr
    message = "Relation attribute-similarity was left out: the graph has no attributes."
    assert message in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "task", "reason"),
    [
        (["labels"], "links", "link prediction does not read labels."),
        (["labels"], "nodes", "the graph has no labels."),
        (["attributes", "links"], "nodes", "the graph has no attributes and no links."),
        (
            ["attributes", "labels"],
            "links",
            "the graph has no attributes and link prediction does not read labels.",
        ),
    ],
)
def test_why_a_relation_was_left_out(kinds: list[str], task: str, reason: str) -> None:
    sentence = left_out_sentence("x", kinds, TaskName(task))
    assert sentence == f"Relation x was left out: {reason}"


@pytest.mark.slow
@pytest.mark.parametrize("content", ["", "{}", "[]", "null", "{", '{"metric": "auc"}', "\x00"])
def test_a_damaged_finished_run_is_named(graph_file: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text("{}")
    (tmp_path / "metrics.json").write_text(content)
    result = fit(graph_file, tmp_path, "--resume")
    assert result.exit_code == 3
    assert "metrics.json" in result.stderr
    assert result.stderr.startswith("Error: ")


def interrupt(
    monkeypatch: pytest.MonkeyPatch, moment: tuple[str, int, int] | None, heard: Recorder | None
) -> None:
    """Let the next fit report to an interrupter, or to a recorder."""
    interrupted = Interrupter(*moment) if moment else heard
    assert interrupted is not None
    monkeypatch.setattr(Bars, "stage", lambda _, name, steps: interrupted.stage(name, steps))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "config", "training", "left"),
    [
        ("nodes", HIDDEN_LABELS, 1, [*FIRST[FIRST.index(TRAINING) :], *LATER, *LAST]),
        # After the choice encoders are trained again that the parts had shared.
        ("nodes", HIDDEN_LABELS, IN_PARTS + 1, [FINDING, *[TRAINING] * FIRST.count(TRAINING)]),
        ("nodes", FIXED_RULES, 1, JOINED),
        ("links", None, 1, [*TRIED, COUNTING, FINDING, TRAINING]),  # while plans are tried
        ("links", None, len(TRIED) + 1, [TRAINING]),  # after one was chosen
    ],
)
def test_an_interrupted_fit_goes_on(
    task: str,
    config: str | None,
    training: int,
    left: list[str],
    graph_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shrink_recipes(monkeypatch)
    options = ["--task", task]
    if config == FIXED_RULES:
        options += ["--config", config]  # hidden labels are the default
    assert fit(graph_file, tmp_path / "whole", *options).exit_code == 0
    out = tmp_path / "run"
    interrupt(monkeypatch, (TRAINING, training, 1), None)
    stopped = fit(graph_file, out, *options)
    assert stopped.exit_code == 130
    assert stopped.stdout == ""
    assert "To go on, give the same command with --resume." in stopped.stderr
    assert ("Trials on hidden links are trained again." in stopped.stderr) is (task == "links")
    assert not (out / "metrics.json").exists()
    heard = Recorder()
    interrupt(monkeypatch, None, heard)
    resumed = fit(graph_file, out, *options, "--resume")
    assert resumed.exit_code == 0, resumed.stderr
    assert heard.names == left
    assert comparable(out) == comparable(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--resume", "--seed", "1"]])
def test_without_resume_or_for_another_fit_all_begins_anew(
    options: list[str], graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = options[1:]
    assert fit(graph_file, tmp_path / "whole", *seed).exit_code == 0
    interrupt(monkeypatch, (TRAINING, 1, 1), None)
    assert fit(graph_file, tmp_path / "run").exit_code == 130
    heard = Recorder()
    interrupt(monkeypatch, None, heard)
    assert fit(graph_file, tmp_path / "run", *options).exit_code == 0
    assert heard.names == hidden_stages(DEFAULT)
    assert comparable(tmp_path / "run") == comparable(tmp_path / "whole")


@pytest.mark.slow
def test_repairs_are_told_on_standard_error(tmp_path: Path) -> None:
    graph = small_graph()
    doubled = np.concatenate([graph.edges, graph.edges[:, :5], [[3], [3]]], axis=1)
    Graph.from_arrays(graph.attributes, doubled, graph.labels).save(tmp_path / "graph.npz")
    result = fit(tmp_path / "graph.npz", tmp_path / "run", "--json")
    assert result.exit_code == 0
    json.loads(result.stdout)
    assert result.stderr.strip()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["[bold]", "a[", "x[/y]", "[red]z[/red]"])
def test_names_with_brackets_are_shown_as_they_are(name: str, tmp_path: Path) -> None:
    graph = small_graph()
    odd = Graph.from_arrays(graph.attributes, graph.edges, graph.labels, name=name)
    odd.save(tmp_path / "graph.npz")
    out = tmp_path / name
    result = fit(tmp_path / "graph.npz", out)
    assert result.exit_code == 0, result.stderr
    assert f"Run written to {out} " in result.stdout
    assert fit(tmp_path / "graph.npz", out, "--resume").exit_code == 0


# `xtcl fit --dry-run`: the plan, and nothing else.

BUDGET = 4


def run(*words: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, ["fit", *words])
    return found.exit_code, found.stdout, found.stderr


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "graph.npz"
    block_model(300).save(path)
    return str(path)


def test_shows_the_plan_and_writes_nothing(graph: str, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    before = sorted(tmp_path.rglob("*"))
    code, text, _ = run(graph, "--dry-run", "--out", str(tmp_path / "run"), "--store", store)
    assert code == 0
    for stage in ("relations", "positives", "training", "embedding", "head", "whole fit"):
        assert stage in text
    for word in ("exact", "all nodes at once", "the whole graph in every step", "to the store"):
        assert word in text
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_with_a_run_is_no_obstacle(graph: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    assert run(graph, "--dry-run", "--out", str(tmp_path))[0] == 0


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_as_one_object(graph: str, task: str) -> None:
    words = (graph, "--task", task, "--dry-run", "--json", "--cap", "8", "--memory", "2GB")
    code, text, _ = run(*words)
    assert code == 0
    plan = json.loads(text)
    assert plan["mode"] == "top-k"
    assert plan["cap"] == 8
    assert plan["budget_bytes"] == 2 * 2**30
    assert plan["mini_batches"] is False
    assert plan["peak_bytes"] == max(stage["peak"] for stage in plan["stages"])
    assert plan.pop("relation_seconds") > 0
    again = json.loads(run(*words)[1])
    assert again.pop("relation_seconds") > 0
    assert again == plan


def test_seconds_of_a_small_graph_are_not_rounded_to_zero() -> None:
    assert [three_digits(s) for s in (0.00123456, 0.01, 12.3456, 4321.0)] == [
        0.00123, 0.01, 12.3, 4320.0
    ]  # fmt: skip


def test_the_relations_are_timed_and_the_line_says_what_is_not(
    graph: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text, _ = run(graph, "--dry-run")
    assert "relations: less than a minute" in text
    assert TIMED in text
    recipe = make_task("nodes").recipe("gcn")
    known = Sizes("cora", "nodes", 2708, 5278, 1433, 4 * 2708 * 1433, 7, 270, recipe)
    for seconds, shorter in ((LONG_SECONDS - 1, False), (LONG_SECONDS + 1, True)):
        print_plan(plan_stages(known, NO_LIMIT), None, known.nodes, seconds)
        text = capsys.readouterr().out
        assert "relations: about 60 min" in text
        assert (SHORTER in text) is shorter


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "less than a minute"),
        (61, "about 1 min"),
        (5000, "about 83 min"),
        (9000, "about 2.5 hours"),
    ],
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_too_little_memory_is_refused_before_any_work(graph: str, tmp_path: Path) -> None:
    for extra in (["--dry-run"], []):
        code, text, message = run(
            graph, "--memory", "100MB", "--out", str(tmp_path / "run"), *extra
        )
        assert code == BUDGET
        assert not text
        assert re.search(r"needs about 0\.\d\d GB and the budget is 0\.10 GB", message)
    assert not (tmp_path / "run").exists()


def test_a_long_fit_comes_with_a_shorter_way() -> None:
    quick = {"task": "nodes", "relation_seconds": 10.0, "gigabytes": 1.0}
    assert SHORTER not in _estimates([quick])
    assert _estimates([quick, quick | {"relation_seconds": LONG_SECONDS + 1}])[-1] == SHORTER
