"""An interrupted fit goes on where it stopped, and ends as if nothing had happened."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import (
    COMPARING,
    COUNTING,
    FINDING,
    LIKELY_LINKS,
    TRAINING,
    Interrupter,
    Recorder,
    early_stopping_recipe,
    hidden_stages,
    narrow,
    saved_files,
    small_graph,
    small_model,
    small_split,
    stages_of,
)

from xtcl.config import (
    FIXED_RULES,
    HIDDEN_LABELS,
    QUICK,
    BatchConfig,
    EncoderConfig,
    EnsembleConfig,
    FitConfig,
)
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


LINKS, FIXED = ("links", "gcn", None), ("nodes", "gcn", FIXED_RULES)
NODES, ATTENTION = ("nodes", "gcn", None), ("nodes", "gat", None)
Kind = tuple[str, str, str | None]
"""Task, encoder, and the name of a recipe that is not the default."""


PLANS = len(LinkPrediction().recipe("gcn").ensembles)


TRIED, FOLLOWED = [TRAINING] * PLANS, [COUNTING, FINDING, TRAINING]
JOINED = [TRAINING] * 2
"""The encoders of the fixed rules."""


DEFAULT = NodeClassification().recipe("gcn")


FIRST, LATER = stages_of(DEFAULT, first=True), stages_of(DEFAULT)
LAST, AGAIN = stages_of(DEFAULT, last=True), stages_of(DEFAULT, first=True, last=True)
"""After the choice; and after it was read from a checkpoint, where every encoder is trained."""


ALL, OTHERS = FIRST.count(TRAINING), LATER.count(TRAINING)
"""Encoders, and those that read labels and are trained for each part."""


IN_PARTS = ALL + (DEFAULT.hidden_parts - 1) * OTHERS
"""Trainings before the choice."""


def since(name: str, stages: list[str]) -> list[str]:
    """The stages from the first one called `name`."""
    return stages[stages.index(name) :]


def trained(*parts: list[str]) -> list[str]:
    """What is gone through again of hidden parts that were done: nothing of it is computed."""
    return [name for part in parts for name in part if name in (TRAINING, COMPARING)]


def fit_small(task: str, encoder: str = "gcn", recipe: str | None = None, **settings: Any) -> XTCL:
    graph = small_graph()
    checkpoints = settings.pop("checkpoints", None)
    model = small_model(task, encoder, recipe=recipe, epochs=EPOCHS, **settings)
    return model.fit(graph, small_split(graph, task), checkpoints=checkpoints)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[Kind, dict[str, bytes]]:
    return {
        kind: saved_files(fit_small(*kind), tmp_path_factory.mktemp("-".join(map(str, kind))))
        for kind in (NODES, ATTENTION, FIXED, LINKS)
    }


def epochs_before(kind: Kind, moment: tuple[str, int, int], trainings: int) -> list[int]:
    """How many epochs of each training of the resumed fit had been done before."""
    name, occurrence, step = moment
    if kind == LINKS:  # nothing is kept of a trial
        followed = name == TRAINING and occurrence > PLANS
        return [0] * (trainings - 1) + [step if followed else 0]
    stages = JOINED if kind == FIXED else hidden_stages(DEFAULT)
    if name not in stages:
        return [0] * trainings
    place = [at for at, each in enumerate(stages) if each == name][occurrence - 1]
    done = [EPOCHS] * stages[:place].count(TRAINING) + [step] * (name == TRAINING)
    if len(done) > IN_PARTS or trainings == ALL:  # the choice was saved
        done = [0] * (ALL - OTHERS) + done[IN_PARTS:] if kind != FIXED else done
    return done + [0] * (trainings - len(done))


@pytest.mark.parametrize(
    ("kind", "moment", "left"),
    [
        (FIXED, (COUNTING, 1, 2), [COUNTING, FINDING, *JOINED]),
        (FIXED, (FINDING, 1, 1), [FINDING, *JOINED]),
        (FIXED, (TRAINING, 1, 3), JOINED),
        (FIXED, (TRAINING, 2, 12), JOINED),
        # By default the labels of three parts are hidden in turn.
        (NODES, (COUNTING, 1, 2), [*FIRST, *LATER, *LATER, *LAST]),
        (NODES, (FINDING, 1, 1), [*since(FINDING, FIRST), *LATER, *LATER, *LAST]),
        (NODES, (LIKELY_LINKS, 1, 1), [*since(LIKELY_LINKS, FIRST), *LATER, *LATER, *LAST]),
        (NODES, (TRAINING, 1, 3), [*since(TRAINING, FIRST), *LATER, *LATER, *LAST]),
        (NODES, (TRAINING, ALL, 12), [*since(TRAINING, FIRST), *LATER, *LATER, *LAST]),
        (NODES, (COUNTING, 2, 3), [*trained(FIRST), *LATER, *LATER, *LAST]),
        (NODES, (TRAINING, ALL + 1, 12), [*trained(FIRST, LATER), *LATER, *LAST]),
        (NODES, (COMPARING, 3, 1), [*trained(FIRST, LATER, LATER), *LAST]),
        # The choice is kept; encoders that the parts shared are not, and are trained again.
        (NODES, (COUNTING, 4, 3), AGAIN),
        (NODES, (TRAINING, IN_PARTS + 1, 3), [FINDING, *[TRAINING] * ALL]),
        (NODES, (TRAINING, IN_PARTS + OTHERS, 12), [FINDING, *[TRAINING] * ALL]),
        (ATTENTION, (TRAINING, 1, 12), [*since(TRAINING, FIRST), *LATER, *LATER, *LAST]),
        (ATTENTION, (TRAINING, IN_PARTS + 1, EPOCHS), [FINDING, *[TRAINING] * ALL]),
        # Links: all plans are tried without the hidden links, and one is followed with all.
        (LINKS, (COUNTING, 1, 3), [COUNTING, FINDING, *TRIED, *FOLLOWED]),
        (LINKS, (TRAINING, 1, 12), [*TRIED, *FOLLOWED]),
        (LINKS, (TRAINING, PLANS, 12), [*TRIED, *FOLLOWED]),
        (LINKS, (COUNTING, 2, 3), [COUNTING, FINDING, TRAINING]),
        (LINKS, (FINDING, 2, 1), [FINDING, TRAINING]),
        (LINKS, (TRAINING, PLANS + 1, 12), [TRAINING]),
    ],
    ids=str,
)
def test_an_interruption_leaves_no_trace(
    kind: Kind,
    moment: tuple[str, int, int],
    left: list[str],
    undisturbed: dict[Kind, dict[str, bytes]],
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
    # Every tenth epoch is kept of the encoders, but nothing of a trial of links.
    before = epochs_before(kind, moment, len(trainings))
    assert [done[0] for done in trainings] == [max(epochs // 10 * 10, 1) for epochs in before]


def test_interrupted_again_and_again(
    undisturbed: dict[Kind, dict[str, bytes]], tmp_path: Path
) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    for moment in (
        (COUNTING, 1, 1),
        (FINDING, 1, 1),
        (TRAINING, 1, 11),
        (TRAINING, 1, 21),
        (COMPARING, 2, 1),
        (TRAINING, IN_PARTS + 1, 11),
        (TRAINING, ALL, 21),
    ):
        with pytest.raises(KeyboardInterrupt):
            fit_small("nodes", checkpoints=checkpoints, progress=Interrupter(*moment))
    model = fit_small("nodes", checkpoints=checkpoints)
    assert saved_files(model, tmp_path / "run") == undisturbed[NODES]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Checkpoints of fits that were interrupted in the second hidden part, and after the choice."""
    folders = {}
    for name, number in (("in a part", ALL + 1), ("after the choice", IN_PARTS + OTHERS)):
        folders[name] = tmp_path_factory.mktemp("stopped") / "checkpoint"
        checkpoints = Checkpoints(folders[name])
        with pytest.raises(KeyboardInterrupt):
            fit_small("nodes", checkpoints=checkpoints, progress=Interrupter(TRAINING, number, 12))
    return folders


@pytest.mark.parametrize(
    ("where", "name"),
    [
        ("in a part", "counts"),
        ("in a part", "positives*"),
        ("in a part", "likely-links"),
        ("in a part", "training"),
        ("after the choice", "choice"),
        ("after the choice", "*"),
    ],
)
@pytest.mark.parametrize("damage", ["cut", "flipped content", "foreign"])
def test_a_damaged_checkpoint_is_made_anew(
    where: str,
    name: str,
    damage: str,
    stopped: dict[str, Path],
    undisturbed: dict[Kind, dict[str, bytes]],
    tmp_path: Path,
) -> None:
    shutil.copytree(stopped[where], tmp_path / "checkpoint")
    paths = list((tmp_path / "checkpoint").rglob(f"{name}.safetensors"))
    assert paths
    for path in paths:
        content = path.read_bytes()
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        damaged = {"cut": content[: len(content) // 2], "flipped content": flipped}
        path.write_bytes(damaged.get(damage, b"PK" * 50))
    model = fit_small("nodes", checkpoints=Checkpoints(tmp_path / "checkpoint"))
    assert saved_files(model, tmp_path / "run") == undisturbed[NODES]


@pytest.mark.parametrize("part", ["hidden-0", "the fit"])
def test_a_checkpoint_is_believed(
    part: str, undisturbed: dict[Kind, dict[str, bytes]], tmp_path: Path
) -> None:
    """The control of the tests above: what is in an intact checkpoint does matter."""
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    fit_small("nodes", checkpoints=checkpoints)
    found = (tmp_path / "checkpoint").rglob("positives.safetensors")
    folders = {path.parent.name: path.parent for path in found}
    assert len(folders) == DEFAULT.hidden_parts + 1
    hidden = {name for name in folders if name.startswith("hidden-")}
    (last,) = set(folders) - hidden
    folder = folders[part if part in hidden else last]
    inside = Checkpoints(folder)
    stored = inside.load("positives")
    assert stored is not None
    inside.save("positives", stored | {"nodes": stored["nodes"].roll(1, dims=0)})
    for training in folder.rglob("training.safetensors"):
        training.unlink()
    if part in hidden:  # it is read for another choice only
        (tmp_path / "checkpoint" / "choice.safetensors").unlink()
    model = fit_small("nodes", checkpoints=checkpoints)
    assert saved_files(model, tmp_path / "run") != undisturbed[NODES]


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
        "fixed rules": (small_model(recipe=FIXED_RULES), graph, split),
        "quick": (small_model(recipe=QUICK), graph, split),
        "metric": (small_model(metric="macro_f1"), graph, split),
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
    assert prepare(small_model(recipe=HIDDEN_LABELS), graph, split).identity == plain
    assert prepare(small_model(metric="accuracy"), graph, split).identity == plain
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
    kept = Checkpoints(tmp_path / "kept")
    # By default also after the choice of heads; the fit after that begins with the last trainings.
    for number in (2, IN_PARTS + 1) if task == "nodes" else (1,):
        with pytest.raises(KeyboardInterrupt):
            fit(task, encoder, checkpoints=kept, progress=Interrupter(TRAINING, number, 11))
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
