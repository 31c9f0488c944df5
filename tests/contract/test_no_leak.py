"""Nothing of the test side reaches a run, to the byte.

The test labels are permuted, or the test links rewired, and the command line fits again: every file
of the run must stay as it was but for the scores. The controls change one training label or link.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from small_blends import shrink_hidden_recipe
from small_runs import (
    early_stopping_recipe,
    files_of,
    shrink_recipes,
    small_graph,
    small_model,
    small_split,
)
from torch import Tensor
from typer.testing import CliRunner

from xtcl.cli.main import app
from xtcl.config import FIXED_RULES, HIDDEN_LABELS, QUICK
from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit, check_no_leak
from xtcl.sampling.xgsampler import counts_to_arrays
from xtcl.tasks import hidden_labels, make_task
from xtcl.tasks.fit import Trial, fit_task
from xtcl.tasks.logistic import stratified_folds
from xtcl.tasks.node_classification import NodeClassification
from xtcl.tasks.results import FittedEmbedding
from xtcl.tasks.training_data import TrainingData, training_data
from xtcl.training.checkpoint import Checkpoints

pytestmark = pytest.mark.slow


Sides = tuple[Graph, NodeSplit | LinkSplit]
# The identity of a run names its whole split, as split.json does: it is no result of the fit.
SCORES = {"test", "compared", "seconds", "identity"}


def whole(task: str) -> Sides:
    graph = small_graph(100)
    return graph, small_split(graph, task)


def other_test_side(graph: Graph, split: NodeSplit | LinkSplit) -> Sides:
    rng = np.random.default_rng(7)
    assert graph.labels is not None
    labels = graph.labels.copy()
    if isinstance(split, NodeSplit):
        labels[split.test] = rng.permutation(labels[split.test])
        return graph.with_labels(labels), split
    pairs = np.stack(np.triu_indices(graph.num_nodes, 1))
    keys = pairs[0] * graph.num_nodes + pairs[1]
    used = [split.train, split.train_negatives, split.test, split.test_negatives]
    taken = np.concatenate([side[0] * graph.num_nodes + side[1] for side in used])
    free = rng.permutation(pairs[:, ~np.isin(keys, taken)], axis=1)
    count = split.test.shape[1]
    links, non_links = free[:, :count], free[:, count : 2 * count]
    rewired = replace(split, test=links, test_negatives=non_links)
    # The labels are of no concern to link prediction, so all of them may change as well.
    moved = graph.with_edges(np.concatenate([split.train, links], axis=1))
    return moved.with_labels(rng.permutation(labels)), rewired


def other_training_side(graph: Graph, split: NodeSplit | LinkSplit) -> Sides:
    assert graph.labels is not None
    if isinstance(split, NodeSplit):
        labels = graph.labels.copy()
        labels[split.train[0]] = (labels[split.train[0]] + 1) % graph.num_classes
        return graph.with_labels(labels), split
    train, negatives = split.train.copy(), split.train_negatives.copy()
    train[:, 0], negatives[:, 0] = split.train_negatives[:, 0], split.train[:, 0]
    changed = replace(split, train=train, train_negatives=negatives)
    return graph.with_edges(np.concatenate([train, split.test], axis=1)), changed


def fit(
    sides: Sides, task: str, encoder: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, bytes]:
    """Every file that the command line writes for this graph and split."""
    graph, split = sides
    check_no_leak(graph, split)
    folder.mkdir()
    graph.save(folder / "graph.npz")
    monkeypatch.setattr("xtcl.model_selection.evaluation.make_split", lambda *_: split)
    shrink_recipes(monkeypatch)
    arguments = ["fit", str(folder / "graph.npz"), "--task", task, "--encoder", encoder]
    arguments += ["--out", str(folder / "run"), "--device", "cpu", "--compare", "logistic"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return files_of(folder / "run")


def without(text: bytes, names: set[str]) -> dict[str, object]:
    return {name: value for name, value in json.loads(text).items() if name not in names}


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_the_test_side_leaves_no_trace_in_a_run(
    task: str, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = whole(task)
    first = fit(sides, task, encoder, tmp_path / "a", monkeypatch)
    second = fit(other_test_side(*sides), task, encoder, tmp_path / "b", monkeypatch)
    assert first.keys() == second.keys()
    assert {
        "config.toml",
        "split.json",
        *(["test_labels.json"] if task == "nodes" else []),
        "metrics.json",
        "relation_weights.json",
        "relation_weights.png",
        "embeddings.parquet",
        "events.jsonl",
        "model/model.json",
        "model/training_graph.npz",
        "model/encoder.safetensors",
        "model/tables.safetensors",
        "model/head.safetensors",
    } == first.keys()
    differing = {name for name in first if first[name] != second[name]}
    assert differing <= {"metrics.json", "split.json", "test_labels.json"}
    assert without(first["metrics.json"], SCORES) == without(second["metrics.json"], SCORES)
    tested = {"test", "test_negatives"} if task == "links" else set[str]()
    assert without(first["split.json"], tested) == without(second["split.json"], tested)
    # For links the plan, its epochs and the scorer were chosen, by training links alone.
    config = tomllib.loads(first["config.toml"].decode())
    assert config["recipe"]["stop_early"] is (task == "links")
    assert (len(config["recipe"]["ensembles"]) > 1) is (task == "links")
    # The test side did change, and the score saw it.
    assert json.loads(first["metrics.json"])["test"] != json.loads(second["metrics.json"])["test"]


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_one_training_label_or_link_does_leave_a_trace(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = whole(task)
    first = fit(sides, task, "gcn", tmp_path / "a", monkeypatch)
    second = fit(other_training_side(*sides), task, "gcn", tmp_path / "b", monkeypatch)
    differing = {name for name in first if first[name] != second[name]}
    assert {
        "relation_weights.json",
        "relation_weights.png",
        "embeddings.parquet",
        "events.jsonl",
        "model/training_graph.npz",
        "model/encoder.safetensors",
        "model/tables.safetensors",
        "model/head.safetensors",
        "model/model.json",
    } <= differing


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
@pytest.mark.parametrize("task", ["nodes", "links"])
def test_the_test_side_leaves_no_trace_in_what_is_kept_on_the_way(
    task: str, encoder: str, tmp_path: Path
) -> None:
    """The choice of a plan among them, and what the trials of it counted and found."""
    sides = whole(task)
    kept = []
    for name, (graph, split) in {"a": sides, "b": other_test_side(*sides)}.items():
        model = small_model(task, encoder)
        if task == "links":
            model = XTCL(
                task, recipe=early_stopping_recipe(encoder, 20), device="cpu", encoder=encoder
            )
        model.fit(graph, split, checkpoints=Checkpoints(tmp_path / name))
        kept.append(files_of(tmp_path / name))
    assert kept[0] == kept[1]
    names = {path.rpartition("/")[2].removesuffix(".safetensors") for path in kept[0]}
    folds = {f"counts-{fold}" for fold in range(5)}  # which a resumed stage reads
    expected = {"choice", "counts", "positives"} | folds
    recipe = make_task(task).recipe(encoder)
    if task == "nodes":
        named = {member.positives for member in recipe.ensembles[0].encoders}
        expected |= {f"positives-{name}" for name in named - {recipe.strategy}} | {"likely-links"}
    assert names - {"training"} == expected
    assert "training" in names or task == "links"  # hidden links may end it before it is kept
    # Relations and sampler also ran on the labels and links that were not hidden for the choice.
    counted = [path for path in kept[0] if path.endswith("counts.safetensors")]
    assert len(counted) == 1 + (1 if task == "links" else recipe.hidden_parts)


@pytest.mark.parametrize("name", [FIXED_RULES, QUICK])
def test_the_test_side_leaves_no_trace_by_the_other_recipes(name: str, tmp_path: Path) -> None:
    sides = whole("nodes")
    kept, answers = [], []
    for folder, (graph, split) in {"a": sides, "b": other_test_side(*sides)}.items():
        model = small_model(recipe=name)
        model.fit(graph, split, checkpoints=Checkpoints(tmp_path / folder))
        kept.append(files_of(tmp_path / folder))
        answers.append(model.predict_proba().tobytes())
    assert kept[0] == kept[1]
    assert answers[0] == answers[1]
    assert any("hidden-0" in path for path in kept[0]) is (name == QUICK)


def test_a_training_link_does_leave_a_trace_in_the_choice(tmp_path: Path) -> None:
    sides = whole("links")
    choices = []
    for name, (graph, split) in {"a": sides, "b": other_training_side(*sides)}.items():
        model = XTCL("links", recipe=early_stopping_recipe("gcn", 20), device="cpu")
        model.fit(graph, split, checkpoints=Checkpoints(tmp_path / name))
        choices.append((tmp_path / name / "choice.safetensors").read_bytes())
    assert choices[0] != choices[1]


def test_the_command_line_draws_the_same_split_whatever_the_test_labels_are(
    tmp_path: Path,
) -> None:
    graph = small_graph(100)
    written = []
    for name in ("a", "b"):
        graph.save(tmp_path / f"{name}.npz")
        out = tmp_path / name
        arguments = ["fit", str(tmp_path / f"{name}.npz"), "--out", str(out), "--device", "cpu"]
        assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
        written.append(files_of(out))
        split = NodeSplit.from_json(json.loads(written[0]["split.json"]))
        graph, _ = other_test_side(graph, split)
    differing = {name for name in written[0] if written[0][name] != written[1][name]}
    assert differing == {"metrics.json", "test_labels.json"}


@pytest.mark.parametrize("encoder", ["gcn", "gat"])
def test_a_fit_needs_no_test_labels_at_all(encoder: str) -> None:
    graph, split = whole("nodes")
    assert isinstance(split, NodeSplit)
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[split.test] = -1
    seen = small_model(encoder=encoder).fit(graph, split)
    blind = small_model(encoder=encoder).fit(graph.with_labels(labels), split)
    np.testing.assert_array_equal(seen.embedding_, blind.embedding_)
    np.testing.assert_array_equal(seen.predict_proba(), blind.predict_proba())


@pytest.mark.parametrize("use_labels", [False, True])
def test_a_fit_needs_no_test_links_at_all(use_labels: bool) -> None:
    graph, split = whole("links")
    assert isinstance(split, LinkSplit)
    blind_graph = graph.with_edges(split.train)
    seen = small_model("links", use_labels=use_labels).fit(graph, split)
    blind = small_model("links", use_labels=use_labels).fit(blind_graph, split)
    np.testing.assert_array_equal(seen.embedding_, blind.embedding_)
    np.testing.assert_array_equal(
        seen.decision_function(split.test), blind.decision_function(split.test)
    )


# By default hidden labels choose for nodes: neither they nor the test side reach a fit.


def hidden_fit(sides: Sides, folder: Path) -> tuple[XTCL, dict[str, bytes], dict[str, bytes]]:
    """A fit by the recipe, every file of its run, and all that was kept on the way."""
    graph, split = sides
    model = XTCL(device="cpu")
    assert model.resolved_recipe() == XTCL(recipe=HIDDEN_LABELS).resolved_recipe()
    model.fit(graph, split, checkpoints=Checkpoints(folder / "kept"))
    model.save(folder / "run")
    return model, files_of(folder / "run"), files_of(folder / "kept")


def test_only_training_labels_leave_a_trace_where_hidden_labels_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrink_hidden_recipe(monkeypatch)
    sides = whole("nodes")
    model, files, kept = hidden_fit(sides, tmp_path / "a")
    other, other_files, other_kept = hidden_fit(other_test_side(*sides), tmp_path / "b")
    np.testing.assert_array_equal(model.embedding_, other.embedding_)
    np.testing.assert_array_equal(model.predict_proba(), other.predict_proba())
    head, other_head = model.head_.to_tensors(), other.head_.to_tensors()
    assert head.keys() == other_head.keys()
    assert all(head[name].tobytes() == other_head[name].tobytes() for name in head)
    assert model.choice_ is not None
    assert model.choice_ == other.choice_
    assert files.keys() == other_files.keys()
    differing = {name for name in files if files[name] != other_files[name]}
    assert differing == {"test_labels.json"}
    assert kept == other_kept
    parts = range(model.recipe_.hidden_parts)
    assert {f"hidden-{part}" for part in parts} < {name.split("/")[0] for name in kept}
    # The control: another label of a training node.
    moved, moved_files, _ = hidden_fit(other_training_side(*sides), tmp_path / "c")
    assert model.choice_ != moved.choice_
    differing = {name for name in files if files[name] != moved_files[name]}
    assert {"config.toml", "model/encoder.safetensors", "model/head.safetensors"} <= differing


class SeenPart(NamedTuple):
    """What a fit made while a part of the labels was hidden, as bytes by name."""

    fitted: dict[str, bytes]
    scores: dict[str, bytes]


def seen_parts(
    data: TrainingData, part_of: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> list[SeenPart]:
    """A fit whose labels are hidden in the given parts, and what it made of each of them."""
    parts: list[SeenPart] = []
    fit_part, hidden_scores = Trial.fit_part, hidden_labels._hidden_scores

    def watched_fit(trial: Trial, number: int, *given: Any) -> FittedEmbedding:
        fitted = fit_part(trial, number, *given)
        arrays = {"embedding": fitted.embedding.numpy(), "positives": fitted.positives}
        arrays |= counts_to_arrays(fitted.sampler) | {"weights": fitted.sampler.stumps_.weights}
        arrays |= {"losses": np.array(fitted.losses)}
        arrays |= {f"encoder.{k}": v.numpy() for k, v in fitted.encoder.state_dict().items()}
        parts.append(SeenPart({name: array.tobytes() for name, array in arrays.items()}, {}))
        return fitted

    def watched_scores(*given: Any) -> Iterator[tuple[Any, Tensor]]:
        for candidate, scores in hidden_scores(*given):
            parts[-1].scores[candidate.name] = scores.numpy().tobytes()
            yield candidate, scores

    with monkeypatch.context() as patched:
        patched.setattr(Trial, "fit_part", watched_fit)
        patched.setattr(hidden_labels, "_hidden_scores", watched_scores)
        patched.setattr(hidden_labels, "stratified_folds", lambda *_: part_of)
        task = NodeClassification()
        fit_task(data, task, task.recipe("gcn"))
    return parts


def test_hidden_labels_reach_nothing_of_what_they_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relations, sampler, encoders and heads of a part are the same whatever it hides.

    Also in the last part, when others have computed with its labels in the same fit, and stored.
    """
    shrink_hidden_recipe(monkeypatch)
    graph, split = whole("nodes")
    data = training_data(graph, split)
    known, parts = data.labelled, 3
    part_of = stratified_folds(data.known_labels, parts, 0)
    usual = seen_parts(data, part_of, monkeypatch)
    assert len(usual) == parts
    for hidden in (0, parts - 1):
        nodes = known[part_of == hidden]
        labels = data.labels.copy()
        labels[nodes] = np.random.default_rng(7).permutation(labels[nodes])
        assert (labels != data.labels).any()
        found = seen_parts(TrainingData(data.graph.with_labels(labels)), part_of, monkeypatch)
        assert found[hidden].fitted == usual[hidden].fitted
        assert found[hidden].scores == usual[hidden].scores
        assert found[hidden].scores
        for other in set(range(parts)) - {hidden}:  # these do see them
            assert found[other].fitted["embedding"] != usual[other].fitted["embedding"]
            assert found[other].scores != usual[other].scores
