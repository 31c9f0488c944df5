"""What is saved comes back the same, and the files can be read by anyone."""

from __future__ import annotations

import json
import math
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_runs import (
    early_stopping_recipe,
    files_of,
    python,
    saved_files,
    small_graph,
    small_model,
    small_split,
)

import xtcl
from xtcl.config import EncoderConfig, EnsembleConfig, FitConfig, TrainingConfig
from xtcl.errors import UsageError
from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.nn.encoder import encoder_inputs
from xtcl.prepare import prepare
from xtcl.relations.registry import forget_relation, register_relation
from xtcl.relations.view import TrainingView
from xtcl.runs.config_file import to_toml
from xtcl.runs.run_folder import config_text

pytestmark = pytest.mark.slow


FILES = {
    "config.toml",
    "split.json",
    "test_labels.json",
    "metrics.json",
    "relation_weights.json",
    "relation_weights.png",
    "embeddings.parquet",
    "events.jsonl",
}

TWO = FitConfig(
    ensembles=(
        EnsembleConfig(
            (
                EncoderConfig({"width": 8, "hops": 3}, TrainingConfig(epochs=12)),
                EncoderConfig(
                    {"width": 8, "layers": 2, "batch_norm": True},
                    TrainingConfig(epochs=12, anchors=None),
                    weight=0.3,
                ),
            ),
            attributes=1.5,
        ),
    ),
)


def strict_json(text: str) -> Any:
    """JSON as the standard has it: without NaN and Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize(
    ("task", "encoder"), [("nodes", "gcn"), ("nodes", "gat"), ("links", "gcn"), ("links", "gat")]
)
def test_a_loaded_model_answers_as_the_saved_one(task: str, encoder: str, tmp_path: Path) -> None:
    graph = small_graph()
    split = small_split(graph, task)
    model = small_model(task, encoder, quantiles=(0.9, 0.99), random_state=2).fit(graph, split)
    first = saved_files(model, tmp_path / "run")
    loaded = XTCL.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    np.testing.assert_array_equal(loaded.positives_, model.positives_)
    assert loaded.relation_weights_ == model.relation_weights_
    assert loaded.loss_curves_ == model.loss_curves_
    assert loaded.recipe_ == model.recipe_
    assert loaded.plan_ == model.plan_
    assert loaded.explain(3, 5) == model.explain(3, 5)
    asked = split.test if task == "links" else None
    np.testing.assert_array_equal(loaded.predict(asked), model.predict(asked))
    np.testing.assert_array_equal(loaded.predict_proba(asked), model.predict_proba(asked))
    np.testing.assert_array_equal(loaded.classes_, model.classes_)
    assert loaded.score(split, graph) == model.score(split)
    for name in ("task", "encoder", "width", "epochs", "random_state"):
        assert loaded.get_params()[name] == model.get_params()[name]
    state, copied = model.encoder_.state_dict(), loaded.encoder_.state_dict()
    assert state.keys() == copied.keys()
    assert all(state[name].shape == copied[name].shape for name in state)
    assert all(bool((state[name] == copied[name]).all()) for name in state)
    # The loaded encoder gives the embedding, to the bit.
    assert not loaded.encoder_.training
    with torch.no_grad():
        again = loaded.encoder_(*encoder_inputs(model.training_data_.graph, torch.device("cpu")))
    np.testing.assert_array_equal(again.numpy(), model.embedding_)
    # Saved again it is the same model, and fitted again too.
    second = saved_files(loaded, tmp_path / "again")
    for name in ("relation_weights.json", "embeddings.parquet", "model/tables.safetensors"):
        assert first[name] == second[name]
    np.testing.assert_array_equal(loaded.fit(graph, split).embedding_, model.embedding_)


def test_a_loaded_model_has_no_test_labels_and_scores_links(tmp_path: Path) -> None:
    graph = small_graph()
    for task in ("nodes", "links"):
        split = small_split(graph, task)
        small_model(task).fit(graph, split).save(tmp_path / task)
        model = XTCL.load(tmp_path / task)
        if task == "links":
            assert 0 <= model.score(split) <= 1
        else:
            with pytest.raises(UsageError, match=r"call score\(split, graph\)"):
                model.score(split)


def test_a_run_directory_holds_what_it_promises(tmp_path: Path) -> None:
    graph = small_graph()
    split = small_split(graph, "nodes")
    model = small_model(relations="paper", recipe=TWO).fit(graph, split)
    files = saved_files(model, tmp_path, split=split, metrics={"test": {"accuracy": 0.5}})
    assert {name for name in files if not name.startswith("model/")} == FILES
    config = tomllib.loads(files["config.toml"].decode())
    assert config["xtcl"]["version"] == xtcl.__version__
    assert config["graph"] == {"name": graph.name, "fingerprint": graph.fingerprint()}
    assert config["fit"]["task"] == "nodes"
    assert config["fit"]["random_state"] == 0
    assert len(config["fit"]["relations"]) == 9
    for plan in (*config["recipe"]["ensembles"], config["plan"]):
        assert [member["encoder"]["width"] for member in plan["encoders"]] == [8, 8]
        assert [member["training"]["epochs"] for member in plan["encoders"]] == [12, 12]
    assert config["recipe"]["sampler"]["quantiles"] == [0.99]
    assert strict_json(files["split.json"].decode()) == split.to_json()
    assert strict_json(files["metrics.json"].decode()) == {"test": {"accuracy": 0.5}}
    weights = strict_json(files["relation_weights.json"].decode())
    assert [w["relation"] for w in weights] == [w.relation for w in model.relation_weights_]
    assert set(weights[0]) == {
        "relation",
        "order",
        "precision",
        "support",
        "w0",
        "w1",
        "importance",
        "weights",
    }
    events = [strict_json(line) for line in files["events.jsonl"].decode().splitlines()]
    assert events[0]["event"] == "graph"
    assert events[0]["labelled_nodes"] == len(split.train)
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [(e["encoder"], e["epoch"], e["loss"]) for e in epochs] == [
        (encoder, epoch, loss)
        for encoder, curve in enumerate(model.loss_curves_, start=1)
        for epoch, loss in enumerate(curve, start=1)
    ]
    assert len(epochs) == 2 * 12
    assert files["relation_weights.png"].startswith(b"\x89PNG\r\n\x1a\n")
    strict_json(files["model/model.json"].decode())


def test_events_say_which_relations_were_left_out(tmp_path: Path) -> None:
    graph = small_graph()
    model = small_model().fit(Graph.from_arrays(None, graph.edges, graph.labels))
    lines = saved_files(model, tmp_path)["events.jsonl"].decode().splitlines()
    left_out = [e for e in map(json.loads, lines) if e["event"] == "relation left out"]
    assert {"event": "relation left out", "relation": "attribute-similarity"}.items() <= left_out[
        0
    ].items()
    assert all(event["lacks"] == ["attributes"] for event in left_out)


@pytest.mark.parametrize(
    ("ids", "written"),
    [
        (None, list(range(80))),
        ([f"node {i}" for i in range(80)], [f"node {i}" for i in range(80)]),
        (list(range(100, 180)), list(range(100, 180))),
    ],
)
def test_embeddings_carry_the_node_ids(ids: Any, written: list[Any], tmp_path: Path) -> None:
    graph = small_graph()
    named = Graph.from_arrays(graph.attributes, graph.edges, graph.labels, node_ids=ids)
    model = small_model(epochs=2).fit(named)
    model.save(tmp_path)
    table = pq.read_table(tmp_path / "embeddings.parquet")
    frame = table.to_pandas().set_index("node")
    assert frame.index.tolist() == written
    assert frame.columns.tolist() == model.embedding_frame().columns.tolist()
    np.testing.assert_array_equal(frame.to_numpy(), model.compact_embedding_)
    model.save(tmp_path, full=True)
    table = pq.read_table(tmp_path / "embeddings.parquet")
    assert table.column_names == ["node", "embedding"]
    assert table["node"].to_pylist() == written
    np.testing.assert_array_equal(
        np.array(table["embedding"].to_pylist(), dtype=np.float32), model.embedding_
    )


@pytest.mark.filterwarnings("ignore:Node ids of type object are not saved")
def test_node_ids_of_mixed_kinds_are_written_as_text(tmp_path: Path) -> None:
    graph = small_graph()
    ids = ["a", (1, 2), *range(78)]
    named = Graph.from_networkx(_renamed(graph, ids), attributes=["x"], label="label")
    small_model(epochs=2).fit(named).save(tmp_path)
    written = pq.read_table(tmp_path / "embeddings.parquet")["node"].to_pylist()
    assert written[:3] == ["a", "(1, 2)", "0"]


def _renamed(graph: Graph, ids: list[Any]) -> Any:
    import networkx as nx

    return nx.relabel_nodes(graph.to_networkx(), dict(enumerate(ids)), copy=True)


@pytest.mark.parametrize("task", ["nodes", "links"])
def test_a_recipe_that_was_given_is_saved_and_loaded(task: str, tmp_path: Path) -> None:
    graph = small_graph()
    given = TWO if task == "nodes" else early_stopping_recipe("gcn", 12)
    model = XTCL(task, recipe=given, device="cpu").fit(graph)
    model.save(tmp_path)
    loaded = XTCL.load(tmp_path)
    assert loaded.recipe == loaded.recipe_ == given
    np.testing.assert_array_equal(loaded.fit(graph).embedding_, model.embedding_)


def test_parameters_of_numpy_s_kinds_can_be_saved(tmp_path: Path) -> None:
    graph = small_graph()
    model = small_model(
        width=np.int64(8),
        epochs=np.int32(3),
        temperature=np.float32(0.5),
        quantiles=np.array([0.9, 0.99]),
        random_state=np.int64(1),
    ).fit(graph)
    model.save(tmp_path)
    loaded = XTCL.load(tmp_path)
    assert loaded.random_state == 1
    assert loaded.recipe_ == model.recipe_
    config = tomllib.loads((tmp_path / "config.toml").read_text())
    assert config["plan"]["encoders"][0]["encoder"]["width"] == 8
    assert isinstance(prepare(model, graph, small_split(graph, "nodes")).identity, str)
    assert config["fit"]["random_state"] == 1


def test_saving_over_a_run_leaves_nothing_of_it(tmp_path: Path) -> None:
    graph = small_graph()
    split = small_split(graph, "nodes")
    fresh = saved_files(small_model().fit(graph), tmp_path / "fresh")
    small_model("links").fit(graph).save(tmp_path / "old", split=split, metrics={"test": 1})
    assert saved_files(small_model().fit(graph), tmp_path / "old") == fresh


def test_a_save_that_fails_half_way_does_not_look_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = small_graph()
    model = small_model().fit(graph)
    model.save(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("xtcl.runs.run_folder.write_embeddings", fail)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path)
    assert not (tmp_path / "metrics.json").exists()


def test_loading_needs_the_model_folder_only(tmp_path: Path) -> None:
    graph = small_graph()
    model = small_model().fit(graph)
    model.save(tmp_path / "whole")
    shutil.copytree(tmp_path / "whole" / "model", tmp_path / "part" / "model")
    np.testing.assert_array_equal(XTCL.load(tmp_path / "part").embedding_, model.embedding_)


def test_the_same_fit_writes_the_same_bytes_here_and_in_a_fresh_process(tmp_path: Path) -> None:
    graph = small_graph()
    split = small_split(graph, "links")
    runs = [
        saved_files(small_model("links").fit(graph, split), tmp_path / name, split=split)
        for name in ("a", "b")
    ]
    assert runs[0] == runs[1]
    tests = str(Path(__file__).parents[1] / "helpers")
    script = f"""
import sys
sys.path.insert(0, {tests!r})
from small_runs import small_graph, small_model, small_split
graph = small_graph()
split = small_split(graph, "links")
small_model("links").fit(graph, split).save({str(tmp_path / "fresh")!r}, split=split)
"""
    done = python("-c", script, PYTHONHASHSEED="7")
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "fresh") == runs[0]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.one_of(
    st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), TEXTS, st.none()
)
NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)


@given(
    st.dictionaries(
        NAMES,
        st.one_of(
            SCALARS,
            st.lists(SCALARS.filter(lambda value: value is not None)),
            st.dictionaries(NAMES, SCALARS.filter(lambda value: value is not None)),
        ),
    )
)
def test_toml_says_what_it_was_given(table: dict[str, Any]) -> None:
    read = tomllib.loads(to_toml({"part": table, "part.inner": {"x": 1}}))
    assert read["part"].pop("inner") == {"x": 1}
    assert read["part"] == {name: value for name, value in table.items() if value is not None}


def test_toml_of_a_name_that_would_break_it() -> None:
    graph = small_graph()
    assert graph.labels is not None
    name = 'a "quoted"\n[table] \\ \x7f é'
    odd = Graph.from_arrays(graph.attributes, graph.edges, graph.labels, name=name)
    text = config_text(small_model(epochs=1).fit(odd))
    assert tomllib.loads(text)["graph"]["name"] == name


def test_the_config_is_the_recipe() -> None:
    model = small_model("links", quantiles=[0.9, 0.95], temperature=0.1).fit(small_graph())
    config = tomllib.loads(config_text(model))
    assert FitConfig.from_dict(config["recipe"]) == model.recipe_
    assert EnsembleConfig.from_dict(config["plan"]) == model.plan_
    expected = without_none(json.loads(json.dumps(asdict(model.recipe_))))
    assert config["recipe"] == expected
    assert config["plan"] in expected["ensembles"]
    assert math.isclose(config["plan"]["encoders"][0]["training"]["temperature"], 0.1)


def test_the_config_has_the_epochs_that_hidden_links_found() -> None:
    model = XTCL("links", recipe=early_stopping_recipe("gcn", 37), device="cpu").fit(small_graph())
    config = tomllib.loads(config_text(model))
    given = {m["training"]["epochs"] for p in config["recipe"]["ensembles"] for m in p["encoders"]}
    assert given == {37}
    epochs = [member["training"]["epochs"] for member in config["plan"]["encoders"]]
    assert epochs == [len(curve) for curve in model.loss_curves_]
    assert all(0 < number < 37 for number in epochs)  # embeddings are scored every few epochs


def without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_none(v) for k, v in value.items() if v is not None}
    return [without_none(v) for v in value] if isinstance(value, list) else value


def test_a_relation_that_is_not_registered_is_named(tmp_path: Path) -> None:
    def near(view: TrainingView) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda nodes: (nodes[:, None] - torch.arange(view.num_nodes)).abs().lt(9).float()

    register_relation("near", near)
    try:
        graph = small_graph()
        model = small_model(epochs=1, relations=["near", "pagerank"])
        model.fit(graph, small_split(graph, "nodes")).save(tmp_path / "run")
        found = XTCL.load(tmp_path / "run").relation_weights_
        assert {weight.relation for weight in found} == {"near", "pagerank"}
    finally:
        forget_relation("near")
    with pytest.raises(
        UsageError, match=r"relation 'near', which .* call register_relation\('near'"
    ):
        XTCL.load(tmp_path / "run")
