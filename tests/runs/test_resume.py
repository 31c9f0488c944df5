"""An interrupted fit goes on where it stopped, and ends as if nothing had happened."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import (
    COUNTING,
    FINDING,
    TRAINING,
    Interrupter,
    Recorder,
    early_stopping_recipe,
    narrow,
    saved_files,
    small_graph,
    small_model,
    small_split,
)

from xtcl.config import BatchConfig, EncoderConfig, EnsembleConfig, FitConfig
from xtcl.errors import DataError
from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.graph.splits import LinkSplit, NodeSplit
from xtcl.nn.encoder import encoder_inputs
from xtcl.prepare import prepare
from xtcl.runs.config_file import read_recipe
from xtcl.tasks import make_task
from xtcl.tasks.link_prediction import LinkPrediction
from xtcl.tasks.node_classification import NodeClassification
from xtcl.training.checkpoint import Checkpoints

pytestmark = pytest.mark.slow


EPOCHS = 25


MEMBERS = len(NodeClassification().recipe("gcn").ensembles[0].encoders)


PLANS = len(LinkPrediction().recipe("gcn").ensembles)


JOINED, TRIED, FOLLOWED = [TRAINING] * MEMBERS, [TRAINING] * PLANS, [COUNTING, FINDING, TRAINING]


def fit_small(task: str, encoder: str = "gcn", **settings: Any) -> XTCL:
    graph = small_graph()
    checkpoints = settings.pop("checkpoints", None)
    model = small_model(task, encoder, epochs=EPOCHS, **settings)
    return model.fit(graph, small_split(graph, task), checkpoints=checkpoints)


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[tuple[str, str], dict[str, bytes]]:
    kinds = [("nodes", "gcn"), ("nodes", "gat"), ("links", "gcn")]
    return {
        kind: saved_files(fit_small(*kind), tmp_path_factory.mktemp("-".join(kind)))
        for kind in kinds
    }


@pytest.mark.parametrize(
    ("kind", "moment", "left"),
    [
        (("nodes", "gcn"), (COUNTING, 1, 2), [COUNTING, FINDING, *JOINED]),
        (("nodes", "gcn"), (FINDING, 1, 1), [FINDING, *JOINED]),
        (("nodes", "gcn"), (TRAINING, 1, 3), JOINED),
        (("nodes", "gcn"), (TRAINING, 1, 12), JOINED),
        (("nodes", "gcn"), (TRAINING, MEMBERS, 12), JOINED),
        (("nodes", "gat"), (TRAINING, 1, 12), JOINED),
        (("nodes", "gat"), (TRAINING, 1, EPOCHS), JOINED),
        # Links: all plans are tried without the hidden links, and one is followed with all.
        (("links", "gcn"), (COUNTING, 1, 3), [COUNTING, FINDING, *TRIED, *FOLLOWED]),
        (("links", "gcn"), (TRAINING, 1, 12), [*TRIED, *FOLLOWED]),
        (("links", "gcn"), (TRAINING, PLANS, 12), [*TRIED, *FOLLOWED]),
        (("links", "gcn"), (COUNTING, 2, 3), [COUNTING, FINDING, TRAINING]),
        (("links", "gcn"), (FINDING, 2, 1), [FINDING, TRAINING]),
        (("links", "gcn"), (TRAINING, PLANS + 1, 12), [TRAINING]),
    ],
    ids=str,
)
def test_an_interruption_leaves_no_trace(
    kind: tuple[str, str],
    moment: tuple[str, int, int],
    left: list[str],
    undisturbed: dict[tuple[str, str], dict[str, bytes]],
    tmp_path: Path,
) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    with pytest.raises(KeyboardInterrupt):
        fit_small(*kind, checkpoints=checkpoints, progress=Interrupter(*moment))
    heard = Recorder()
    resumed = fit_small(*kind, checkpoints=checkpoints, progress=heard)
    assert saved_files(resumed, tmp_path / "run") == undisturbed[kind]
    # What had been done was not done again.
    assert heard.names == left
    trainings = [done for name, _, done in heard.stages if name == TRAINING]
    assert all(sum(done) == EPOCHS for done in trainings)
    # Every tenth epoch is kept of the members of the final fit, and nothing of a trial.
    before = [0] * len(trainings)
    if moment[0] == TRAINING and kind[0] == "nodes":
        before[: moment[1] - 1] = [EPOCHS] * (moment[1] - 1)
        before[moment[1] - 1] = moment[2]
    elif moment[0] == TRAINING and moment[1] == PLANS + 1:
        before[-1] = moment[2]
    assert [done[0] for done in trainings] == [max(epochs // 10 * 10, 1) for epochs in before]


def test_interrupted_again_and_again(
    undisturbed: dict[tuple[str, str], dict[str, bytes]], tmp_path: Path
) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    for moment in ((COUNTING, 1, 1), (FINDING, 1, 1), (TRAINING, 1, 11), (TRAINING, 1, 21)):
        with pytest.raises(KeyboardInterrupt):
            fit_small("nodes", checkpoints=checkpoints, progress=Interrupter(*moment))
    model = fit_small("nodes", checkpoints=checkpoints)
    assert saved_files(model, tmp_path / "run") == undisturbed["nodes", "gcn"]


@pytest.mark.parametrize("name", ["counts", "positives", "training", "choice"])
@pytest.mark.parametrize("damage", ["cut", "flipped content", "foreign"])
def test_a_damaged_checkpoint_is_made_anew(
    name: str,
    damage: str,
    undisturbed: dict[tuple[str, str], dict[str, bytes]],
    tmp_path: Path,
) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    with pytest.raises(KeyboardInterrupt):
        fit_small("nodes", checkpoints=checkpoints, progress=Interrupter(TRAINING, 1, 12))
    (path,) = (tmp_path / "checkpoint").rglob(f"{name}.safetensors")  # of the first member only
    content = path.read_bytes()
    flipped = content[:-1] + bytes([content[-1] ^ 1])
    damaged = {"cut": content[: len(content) // 2], "flipped content": flipped}
    path.write_bytes(damaged.get(damage, b"PK" * 50))
    model = fit_small("nodes", checkpoints=checkpoints)
    assert saved_files(model, tmp_path / "run") == undisturbed["nodes", "gcn"]


def test_a_checkpoint_is_believed(
    undisturbed: dict[tuple[str, str], dict[str, bytes]], tmp_path: Path
) -> None:
    """The control of the tests above: what is in an intact checkpoint does matter."""
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    fit_small("nodes", checkpoints=checkpoints)
    (path,) = (tmp_path / "checkpoint").rglob("positives.safetensors")
    inside = Checkpoints(path.parent)
    found = inside.load("positives")
    assert found is not None
    inside.save("positives", found | {"nodes": found["nodes"].roll(1, dims=0)})
    for training in path.parent.rglob("training.safetensors"):
        training.unlink()
    model = fit_small("nodes", checkpoints=checkpoints)
    assert saved_files(model, tmp_path / "run") != undisturbed["nodes", "gcn"]


def fit_judged(**settings: Any) -> XTCL:
    """A fit of links in which hidden links choose plan, epochs and scorer."""
    graph = small_graph()
    checkpoints = settings.pop("checkpoints", None)
    model = XTCL("links", recipe=early_stopping_recipe("gcn", 30), device="cpu", **settings)
    return model.fit(graph, small_split(graph, "links"), checkpoints=checkpoints)


def test_a_saved_choice_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = saved_files(fit_judged(), tmp_path / "whole")
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    with pytest.raises(KeyboardInterrupt):
        fit_judged(checkpoints=checkpoints, progress=Interrupter(TRAINING, PLANS + 1, 1))

    def never(*_: object) -> None:
        raise AssertionError("the choice was saved")

    monkeypatch.setattr(LinkPrediction, "choose", never)
    assert saved_files(fit_judged(checkpoints=checkpoints), tmp_path / "run") == whole


def test_an_interrupted_trial_ends_in_the_same_choice(tmp_path: Path) -> None:
    whole = saved_files(fit_judged(), tmp_path / "whole")
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    with pytest.raises(KeyboardInterrupt):
        fit_judged(checkpoints=checkpoints, progress=Interrupter(TRAINING, PLANS, 15))
    assert checkpoints.load("choice") is None
    assert saved_files(fit_judged(checkpoints=checkpoints), tmp_path / "run") == whole


def test_a_saved_choice_is_believed(tmp_path: Path) -> None:
    """The control of the tests above: the plan in an intact checkpoint is followed."""
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    usual = fit_judged(checkpoints=checkpoints)
    saved = checkpoints.load("choice")
    assert saved is not None
    stored = json.loads(saved["plan"].numpy().tobytes())
    assert EnsembleConfig.from_dict(stored) == usual.plan_
    stored["encoders"][0]["training"]["epochs"] = 7
    text = bytearray(json.dumps(stored).encode())
    checkpoints.save("choice", saved | {"plan": torch.frombuffer(text, dtype=torch.uint8)})
    for training in (tmp_path / "checkpoint").rglob("training.safetensors"):
        training.unlink()
    other = fit_judged(checkpoints=checkpoints)
    assert other.plan_ == EnsembleConfig.from_dict(stored)
    assert [len(curve) for curve in other.loss_curves_] == [7]


Sides = tuple[XTCL, Graph, NodeSplit | LinkSplit]


def changed_fits() -> dict[str, Sides]:
    graph = small_graph()
    split = small_split(graph, "nodes")
    links = small_split(graph, "links")
    assert isinstance(split, NodeSplit)
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[split.train[0]] = (labels[split.train[0]] + 1) % 3
    return {
        "same": (small_model(), graph, split),
        "seed": (small_model(random_state=1), graph, split),
        "width": (small_model(width=16), graph, split),
        "recipe": (small_model(recipe=FitConfig()), graph, split),
        "epochs": (small_model(epochs=None), graph, split),
        "encoder": (small_model(encoder="gat"), graph, split),
        "sampler": (small_model(sampler="paper"), graph, split),
        "relations": (small_model(relations=["link"]), graph, split),
        "training label": (small_model(), graph.with_labels(labels), split),
        "training nodes": (small_model(), graph, replace(split, train=split.train[1:])),
        "graph": (small_model(), graph.with_edges(graph.edges[:, 1:]), split),
        "links": (small_model("links"), graph, links),
        "links with labels": (small_model("links", use_labels=True), graph, links),
    }


def test_fits_that_differ_have_different_identities() -> None:
    identities = {name: prepare(*sides).identity for name, sides in changed_fits().items()}
    assert len(set(identities.values())) == len(identities)
    again = {name: prepare(*sides).identity for name, sides in changed_fits().items()}
    assert again == identities


def test_what_does_not_change_the_result_does_not_change_the_identity() -> None:
    graph = small_graph()
    split = small_split(graph, "nodes")
    plain = prepare(small_model(), graph, split).identity
    assert prepare(small_model(memory="4GB"), graph, split).identity == plain
    assert prepare(small_model(progress=Recorder()), graph, split).identity == plain
    assert prepare(small_model(random_state=np.int64(0)), graph, split).identity == plain
    assert isinstance(split, NodeSplit)
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[split.test] = labels[split.test][::-1]
    assert prepare(small_model(), graph.with_labels(labels), split).identity == plain


# A fit in mini-batches: one setting of the recipe, saved, loaded and resumed like any other.

KINDS = [("nodes", "gcn"), ("nodes", "gat"), ("links", "gcn")]


BATCH = BatchConfig((3, None), block=50)


def recipe_of(task: str, encoder: str, batch: BatchConfig) -> FitConfig:
    def changed(member: EncoderConfig) -> EncoderConfig:
        return replace(member, training=replace(member.training, anchors=20, batch=batch))

    return narrow(make_task(task).recipe(encoder), 12).map_encoders(changed)


def fit(task: str, encoder: str, batch: BatchConfig = BATCH, **settings: Any) -> XTCL:
    graph, checkpoints = small_graph(), settings.pop("checkpoints", None)
    chosen = recipe_of(task, encoder, batch)
    model = small_model(task, encoder, recipe=chosen, width=None, epochs=None, **settings)
    return model.fit(graph, small_split(graph, task), checkpoints=checkpoints)


@pytest.mark.parametrize(("task", "encoder"), KINDS)
def test_a_run_is_saved_loaded_and_repeated(task: str, encoder: str, tmp_path: Path) -> None:
    model = fit(task, encoder)
    files = saved_files(model, tmp_path / "run")
    assert saved_files(fit(task, encoder), tmp_path / "again") == files
    stored = read_recipe(tmp_path / "run" / "config.toml", task, encoder)
    assert stored.recipe == recipe_of(task, encoder, BATCH)
    loaded = XTCL.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    x, edge_index = encoder_inputs(model.training_data_.graph, torch.device("cpu"))
    with torch.no_grad():
        whole = model.encoder_.eval()(x, edge_index).numpy()
    np.testing.assert_allclose(model.embedding_, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("task", "encoder"), KINDS)
def test_a_resumed_run_is_the_same(task: str, encoder: str, tmp_path: Path) -> None:
    files = saved_files(fit(task, encoder), tmp_path / "whole")
    kept, last = Checkpoints(tmp_path / "kept"), 2 if (task, encoder) == ("nodes", "gcn") else 1
    with pytest.raises(KeyboardInterrupt):
        fit(task, encoder, checkpoints=kept, progress=Interrupter(TRAINING, last, 11))
    assert saved_files(fit(task, encoder, checkpoints=kept), tmp_path / "resumed") == files


def test_what_is_no_number_of_neighbours_is_refused(tmp_path: Path) -> None:
    saved_files(fit("nodes", "gat"), tmp_path)
    config = tmp_path / "config.toml"
    text = config.read_text()
    assert 'neighbours = [3, "none"]' in text
    for wrong in ('[3, "few"]', "[true]", "[2.5]", "[0]", "3", '"ab"'):
        config.write_text(text.replace('[3, "none"]', wrong))
        with pytest.raises(DataError, match="holds no recipe that can be used"):
            read_recipe(config, "nodes", "gat")
