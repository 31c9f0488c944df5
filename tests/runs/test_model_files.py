"""A damaged, foreign or newer run is refused with a sentence, and never with anything else."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from small_runs import small_graph, small_model, small_split

from xtcl.config import FIXED_RULES
from xtcl.errors import DataError, XTCLError
from xtcl.estimator import XTCL
from xtcl.runs.model_files import MODEL_FILES, SCHEMA, description_digest, file_digest

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module", params=["nodes", "nodes by fixed rules", "links"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    graph, task = small_graph(60), request.param.split()[0]
    model = small_model(task, recipe=FIXED_RULES if "rules" in request.param else None)
    model.fit(graph, small_split(graph, task)).save(folder)
    return folder


@pytest.fixture
def run(saved: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may damage."""
    shutil.copytree(saved, tmp_path / "run")
    return tmp_path / "run"


def assert_refused(run: Path) -> str:
    with pytest.raises(DataError) as refused:
        XTCL.load(run)
    sentence = str(refused.value)
    assert str(run) in sentence
    assert sentence.endswith(".")
    return sentence


def truncations(content: bytes) -> Iterator[bytes]:
    for length in {0, 1, 7, 8, 9, len(content) // 3, len(content) // 2, len(content) - 2}:
        yield content[:length]


@pytest.mark.parametrize("name", [*MODEL_FILES, "model.json"])
def test_a_file_that_is_cut_short(run: Path, name: str) -> None:
    path = run / "model" / name
    content = path.read_bytes()
    for part in truncations(content):
        path.write_bytes(part)
        assert_refused(run)
    path.write_bytes(content)
    XTCL.load(run)


@pytest.mark.parametrize("name", MODEL_FILES)
def test_a_file_with_a_flipped_bit(run: Path, name: str) -> None:
    path = run / "model" / name
    content = path.read_bytes()
    for place in np.linspace(0, len(content) - 1, 25).astype(int):
        altered = bytearray(content)
        altered[place] ^= 1 << (place % 8)
        path.write_bytes(altered)
        assert name in assert_refused(run)


def test_every_byte_of_model_json_counts(run: Path) -> None:
    path = run / "model" / "model.json"
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        altered = bytearray(content)
        altered[place] ^= (0x01, 0x20, 0x80)[place % 3]
        path.write_bytes(altered)
        assert_refused(run)


@pytest.mark.parametrize("name", [*MODEL_FILES, "model.json"])
def test_a_file_that_is_missing_longer_foreign_or_a_folder(run: Path, name: str) -> None:
    path = run / "model" / name
    content = path.read_bytes()
    path.unlink()
    assert name in assert_refused(run)
    path.mkdir()
    assert name in assert_refused(run)
    path.rmdir()
    foreign = [content + b"x", b"\x89PNG\r\n\x1a\n" + bytes(64), b"[]", b"3", b'"text"', b"null"]
    foreign += [b"{}", b"\xff\xfe", b"[" * 100_000]
    for other in foreign:
        path.write_bytes(other)
        assert_refused(run)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        assert "There is no model in" in assert_refused(place)
    (tmp_path / "model").write_text("a file")
    assert_refused(tmp_path)


def rewrite(run: Path, change: Change, *, sign: bool = True) -> None:
    """Change `model.json`; sign it again, so that its content is believed."""
    path = run / "model" / "model.json"
    described = json.loads(path.read_text())
    change(described)
    if sign:
        described["digest"] = description_digest(described)
    path.write_text(json.dumps(described))


def test_a_newer_schema_asks_for_a_newer_program(run: Path) -> None:
    rewrite(run, lambda d: d.update(schema=SCHEMA + 1, new="things"), sign=False)
    sentence = assert_refused(run)
    assert "newer xtcl" in sentence
    assert "Update xtcl" in sentence


def test_a_model_of_the_first_schema_asks_for_another_fit(run: Path) -> None:
    rewrite(run, lambda d: (d.update(schema=1), d.pop("plan")))
    sentence = assert_refused(run)
    assert "written by an older xtcl (schema 1; this one reads 3 to 4)" in sentence
    assert "Fit and save the model again." in sentence


def first_member(described: dict[str, Any], part: str = "recipe") -> Any:
    plan = described["plan"] if part == "plan" else described["recipe"]["ensembles"][0]
    return plan["encoders"][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("recipe"),
        lambda d: d.update(recipe=None),
        lambda d: d["recipe"].pop("ensembles"),
        lambda d: d["recipe"].update(ensembles=[]),
        lambda d: d["recipe"].update(ensembles={}),
        lambda d: d["recipe"].update(surprise=1),
        lambda d: d["recipe"]["sampler"].update(quantiles=3),
        lambda d: d["recipe"]["ensembles"][0].update(encoders=[]),
        lambda d: first_member(d).pop("training"),
        lambda d: first_member(d).update(training=3),
        lambda d: first_member(d)["training"].update(stopping={"window": "x"}),
        lambda d: d.pop("plan"),
        lambda d: d.update(plan=None),
        lambda d: d["plan"].update(encoders=[]),
        lambda d: d["plan"].pop("attributes"),
        lambda d: d["plan"]["encoders"].append(first_member(d, "plan")),
        lambda d: first_member(d, "plan").pop("weight"),
        lambda d: first_member(d, "plan")["training"].update(stopping={"window": "x"}),
        lambda d: first_member(d, "plan")["encoder"].update(width="wide"),
        lambda d: first_member(d, "plan")["encoder"].update(width=16),
        lambda d: first_member(d, "plan")["encoder"].update(wings=2),
        lambda d: d["parameters"].update(recipe=3),
        lambda d: d["parameters"].update(recipe={"ensembles": []}),
        lambda d: d.pop("parameters"),
        lambda d: d.update(parameters=[1, 2]),
        lambda d: d["parameters"].update(surprise=1),
        lambda d: d["parameters"].pop("task"),
        lambda d: d.pop("relations"),
        lambda d: d.update(relations=5),
        lambda d: d["relations"][0].pop("name"),
        lambda d: d["relations"][0].update(parameters={"surprise": 1}),
        lambda d: d["relations"][0].update(parameters=[1]),
        lambda d: d.pop("sha256"),
        lambda d: d.update(sha256=[]),
        lambda d: d["sha256"].pop("tables.safetensors"),
    ],
)
def test_a_description_of_the_wrong_kind(run: Path, change: Change) -> None:
    rewrite(run, change)
    assert_refused(run)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["parameters"].update(task="juggling"),
        lambda d: d["parameters"].update(encoder="gin"),
        lambda d: d["relations"][0].update(name="friendship"),
    ],
)
def test_a_description_that_names_what_is_not_known_here(run: Path, change: Change) -> None:
    rewrite(run, change)
    with pytest.raises(XTCLError):
        XTCL.load(run)


@pytest.mark.parametrize(
    ("file", "tensor"),
    [
        ("tables", "codes"),
        ("tables", "embedding"),
        ("tables", "positives"),
        ("tables", "losses.0"),
        ("encoder", "members.0.linears.0.weight"),
    ],
)
@pytest.mark.parametrize("kind", ["missing", "wrong shape"])
def test_tensors_of_the_wrong_kind(run: Path, file: str, tensor: str, kind: str) -> None:
    path = run / "model" / f"{file}.safetensors"
    tensors = load_file(path)
    assert tensor in tensors
    if kind == "missing":
        del tensors[tensor]
    else:
        tensors[tensor] = np.zeros((1, 2, 3))
    save_file(tensors, path)
    rewrite(run, lambda d: d["sha256"].update({path.name: file_digest(path)}))
    assert_refused(run)


WITHIN = r"^(scorer\.|\d+\.(logistic|trees)\.)(trees\.)?"
"""Where a tensor is in the file of the head; sentences name what is missing there."""


def test_a_head_that_lacks_something(run: Path) -> None:
    path = run / "model" / "head.safetensors"
    for name in load_file(path):
        content, description = path.read_bytes(), (run / "model" / "model.json").read_bytes()
        save_file({k: v for k, v in load_file(path).items() if k != name}, path)
        rewrite(run, lambda d: d["sha256"].update({path.name: file_digest(path)}))
        # Without its weights a blend is taken for the one head of a model by fixed rules.
        lacking = "coef" if name == "blend.weights" else re.sub(WITHIN, "", name)
        with pytest.raises(
            DataError, match=rf"(lacks|lacks the tensor) '{lacking}'|{lacking}.*miss"
        ):
            XTCL.load(run)
        path.write_bytes(content)
        (run / "model" / "model.json").write_bytes(description)


def test_a_graph_of_another_size(run: Path) -> None:
    place = run / "model" / "training_graph.npz"
    small_graph(40).save(place)
    rewrite(run, lambda d: d["sha256"].update({place.name: file_digest(place)}))
    assert_refused(run)


def test_the_signature_itself_is_right(run: Path) -> None:
    rewrite(run, lambda d: None)
    XTCL.load(run)
