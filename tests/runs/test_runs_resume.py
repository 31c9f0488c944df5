"""An interrupted fit goes on where it stopped, and ends as if nothing had happened."""

from __future__ import annotations

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
    saved_files,
    small_graph,
    small_model,
    small_split,
)

from xtcl.estimator import XTCL
from xtcl.graph.graph import Graph
from xtcl.graph.link_split import LinkSplit
from xtcl.graph.node_split import NodeSplit
from xtcl.learning.checkpoint import Checkpoints
from xtcl.runs.identity import fit_identity

EPOCHS = 25


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
        (("nodes", "gcn"), (COUNTING, 1, 2), [COUNTING, FINDING, TRAINING]),
        (("nodes", "gcn"), (FINDING, 1, 1), [FINDING, TRAINING]),
        (("nodes", "gcn"), (TRAINING, 1, 3), [TRAINING]),
        (("nodes", "gcn"), (TRAINING, 1, 12), [TRAINING]),
        (("nodes", "gat"), (TRAINING, 1, 12), [TRAINING]),
        (("nodes", "gat"), (TRAINING, 1, EPOCHS), [TRAINING]),
        (("links", "gcn"), (TRAINING, 1, 12), [TRAINING, COUNTING, FINDING, TRAINING]),
        (("links", "gcn"), (COUNTING, 2, 3), [TRAINING, COUNTING, FINDING, TRAINING]),
        (("links", "gcn"), (FINDING, 2, 1), [TRAINING, FINDING, TRAINING]),
        (("links", "gcn"), (TRAINING, 2, 12), [TRAINING, TRAINING]),
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
    interrupted, step = moment[1:] if moment[0] == TRAINING else (len(trainings), 0)
    assert trainings[interrupted - 1][0] == max(step // 10 * 10, 1)
    assert all(sum(done) == EPOCHS for done in trainings)


def test_interrupted_again_and_again(
    undisturbed: dict[tuple[str, str], dict[str, bytes]], tmp_path: Path
) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoint")
    for moment in ((COUNTING, 1, 1), (FINDING, 1, 1), (TRAINING, 1, 11), (TRAINING, 1, 21)):
        with pytest.raises(KeyboardInterrupt):
            fit_small("nodes", checkpoints=checkpoints, progress=Interrupter(*moment))
    model = fit_small("nodes", checkpoints=checkpoints)
    assert saved_files(model, tmp_path / "run") == undisturbed["nodes", "gcn"]


@pytest.mark.parametrize("name", ["counts", "positives", "training"])
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
    (path,) = (tmp_path / "checkpoint").rglob(f"{name}.safetensors")
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
    inside.save("positives", {"nodes": found["nodes"].roll(1, dims=0)})
    (path.parent / "training.safetensors").unlink()
    model = fit_small("nodes", checkpoints=checkpoints)
    assert saved_files(model, tmp_path / "run") != undisturbed["nodes", "gcn"]


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
    identities = {name: fit_identity(*sides) for name, sides in changed_fits().items()}
    assert len(set(identities.values())) == len(identities)
    again = {name: fit_identity(*sides) for name, sides in changed_fits().items()}
    assert again == identities


def test_what_does_not_change_the_result_does_not_change_the_identity() -> None:
    graph = small_graph()
    split = small_split(graph, "nodes")
    plain = fit_identity(small_model(), graph, split)
    assert fit_identity(small_model(memory="4GB"), graph, split) == plain
    assert fit_identity(small_model(progress=Recorder()), graph, split) == plain
    assert fit_identity(small_model(random_state=np.int64(0)), graph, split) == plain
    assert isinstance(split, NodeSplit)
    assert graph.labels is not None
    labels = graph.labels.copy()
    labels[split.test] = labels[split.test][::-1]
    assert fit_identity(small_model(), graph.with_labels(labels), split) == plain
