"""Training and test nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xtcl.errors import DataError, UsageError
from xtcl.graph.draw import generator, training_count
from xtcl.graph.graph import Graph

Nodes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """Which nodes train and which test; kept sorted and read-only."""

    train: Nodes
    test: Nodes
    seed: int

    def __post_init__(self) -> None:
        for side in ("train", "test"):
            object.__setattr__(self, side, _node_numbers(getattr(self, side)))

    @property
    def kind(self) -> Literal["nodes"]:
        """The task this split is for."""
        return "nodes"

    def fingerprint(self) -> str:
        """SHA-256 of both sides: equal exactly where the splits are."""
        digest = hashlib.sha256(f"nodes {self.train.size} {self.test.size}".encode())
        digest.update(self.train.tobytes())
        digest.update(self.test.tobytes())
        return digest.hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers, for `split.json`."""
        sides = {"train": self.train.tolist(), "test": self.test.tolist()}
        return {"kind": self.kind, "seed": self.seed, **sides}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> NodeSplit:
        """The split that `to_json` described."""
        if stored.get("kind") != "nodes" or not {"train", "test", "seed"} <= stored.keys():
            raise DataError('A node split needs "kind": "nodes", "seed", "train" and "test".')
        return cls(train=stored["train"], test=stored["test"], seed=int(stored["seed"]))


def node_split(
    graph: Graph, train: float | None = 0.1, *, per_class: int | None = None, seed: int = 0
) -> NodeSplit:
    """Split the labelled nodes at random; nodes without a label take no part.

    With `train`, the first `round(train * n)` nodes of a random order train: the field's plain
    10/90 protocol, not stratified. A class left without a training node then swaps one in for a
    node of the class with most training nodes, as long as that one keeps another, so the total
    never changes. Where there are fewer training nodes than classes, lower class ids come first.

    With `per_class` (which overrides `train`), that many nodes of each class train. A class that
    has no more than that gives all but one, so that it is still tested, and always at least one.
    """
    if graph.labels is None:
        raise DataError(
            f"Graph {graph.name!r} has no labels, and a node split needs them: give labels, or "
            "use link_split."
        )
    labelled = np.flatnonzero(graph.labels >= 0)
    if labelled.size < 2:
        raise DataError(
            f"Graph {graph.name!r} has {labelled.size} labelled node(s); a split needs at least 2."
        )
    order = generator(seed).permutation(labelled)
    if per_class is not None:
        training = _first_per_class(graph.labels[order], per_class)
    elif train is not None:
        training = np.arange(order.size) < training_count(order.size, train, "labelled nodes")
        _cover_classes(graph.labels[order], training)
    else:
        raise UsageError("Say how many nodes train: train=0.1 for a share, or per_class=20.")
    if training.all():
        raise DataError(
            f"per_class={per_class} leaves no test node, because every class of graph "
            f"{graph.name!r} has a single labelled node: label more nodes."
        )
    return NodeSplit(train=order[training], test=order[~training], seed=seed)


def _first_per_class(labels: Nodes, per_class: int) -> NDArray[np.bool_]:
    if per_class < 1:
        raise UsageError(f"per_class={per_class} must be at least 1.")
    training = np.zeros(labels.size, dtype=np.bool_)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        training[members[: min(per_class, max(1, members.size - 1))]] = True
    return training


def _cover_classes(labels: Nodes, training: NDArray[np.bool_]) -> None:
    """Swap one node of every uncovered class into `training`, in place."""
    for label in np.setdiff1d(labels, labels[training]):
        trained = np.bincount(labels[training])
        donor = int(trained.argmax())
        if trained[donor] < 2:
            return
        training[np.flatnonzero((labels == donor) & training)[-1]] = False
        training[np.flatnonzero(labels == label)[0]] = True


def _node_numbers(nodes: ArrayLike) -> Nodes:
    array = np.asarray(nodes)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise DataError(
            f"A node split holds lists of node numbers, not {array.dtype} of shape "
            f"{list(array.shape)}."
        )
    numbers = np.sort(array.astype(np.int64))
    numbers.setflags(write=False)
    return numbers
