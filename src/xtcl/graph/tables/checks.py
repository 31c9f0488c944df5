"""What looks wrong with a graph before anything is learned from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xtcl.errors import first_few
from xtcl.graph.encoding import NUMBER
from xtcl.graph.graph import Graph
from xtcl.graph.splits import generator
from xtcl.graph.validation import IntArray

MANY_ISOLATED = 0.2


LARGEST_CLASS = 0.95


FEW_LABELS = 20


LONGEST_NAME = 80


def data_warnings(graph: Graph, task: str = "nodes") -> list[str]:
    """Sentences, each with a remedy; none where nothing looks wrong for the task.

    Only `nodes` reads labels, and what columns say of them.
    """
    found = [*_of_structure(graph), *_of_cells(graph)]
    return [*found, *_of_labels(graph), *_of_columns(graph)] if task == "nodes" else found


def _of_structure(graph: Graph) -> list[str]:
    found = []
    nodes, isolated = graph.num_nodes, int((graph.degrees == 0).sum())
    if isolated > MANY_ISOLATED * nodes:
        found.append(
            f"{isolated:,} of {nodes:,} nodes ({isolated / nodes:.0%}) have no link: for them only "
            "attributes speak. Are links missing?"
        )
    if not graph.has_attributes:
        found.append("There are no attributes: only links speak. Add columns that describe nodes.")
    return found


def _of_cells(graph: Graph) -> list[str]:
    columns = () if graph.encoding is None else graph.encoding.columns
    return [column.doubt for column in columns if column.doubt]


def _of_labels(graph: Graph) -> list[str]:
    if graph.labels is None:
        return ["There are no labels: only links can be predicted. Name a column with --label."]
    sizes = np.bincount(graph.labels[graph.labels >= 0], minlength=graph.num_classes)
    labelled, found = int(sizes.sum()), []
    single = [_named(graph.classes[code]) for code in np.flatnonzero(sizes == 1)]
    if 2 * graph.num_classes >= labelled:
        found.append(
            f"The labels are nearly unique: {graph.num_classes:,} classes for {labelled:,} "
            "labelled nodes. Is this the right column?"
        )
    elif single:
        found.append(
            f"{len(single)} class(es) have a single node: {first_few(single)}. It can be trained "
            "on or tested, not both; label more, or merge the class."
        )
    if labelled < FEW_LABELS:
        found.append(f"Only {labelled} nodes have a label: scores will say little. Label more.")
    if sizes.max() > LARGEST_CLASS * labelled:
        largest = graph.classes[int(sizes.argmax())]
        found.append(
            f"{sizes.max() / labelled:.1%} of the labels are {_named(largest)}: always saying so "
            "would score as much. Look at more than accuracy."
        )
    if -1 in graph.classes:
        found.append("-1 is a class of its own here; leave the cell empty where it means unknown.")
    return found


def _of_columns(graph: Graph) -> list[str]:
    return [
        f"Column {_named(suspect.column)} alone tells {suspect.share:.1%} of the labels: is it "
        "known before the label is, or is it the label in disguise? If so, remove it."
        for suspect in leaky_columns(graph)
    ]


def _named(name: object) -> str:
    return f"{name!r:.{LONGEST_NAME}}"


ENOUGH_LABELS = 20


SUSPICIOUS = 0.98
"""From this share of right answers on, a single column is too good."""


MAX_LEAK_CLASS_SHARE = 0.9
"""Where one class is larger, every column is right as often."""


GROUP = 5
"""Labelled nodes in a group of equal values, on average: smaller groups are pure by chance."""


RANGES = 2
"""Ranges of a number for each class."""


LOOKED_AT = 5000
"""Labelled nodes that are enough to see it."""


@dataclass(frozen=True)
class LeakyColumn:
    """A column from which alone `share` of the known labels can be read."""

    column: str
    share: float


def leaky_columns(graph: Graph) -> list[LeakyColumn]:
    """Columns whose value all but decides the class, of a graph that came from tables."""
    if graph.encoding is None or graph.labels is None:
        return []
    nodes = np.flatnonzero(graph.labels >= 0)
    if nodes.size > LOOKED_AT:
        nodes = np.sort(generator(0).choice(nodes, LOOKED_AT, replace=False))
    codes = graph.labels[nodes]
    sizes = np.bincount(codes)
    enough = max(ENOUGH_LABELS, RANGES * int(np.count_nonzero(sizes)) * GROUP)
    if nodes.size < enough or sizes.max() > MAX_LEAK_CLASS_SHARE * nodes.size:
        return []
    given = graph.attributes[nodes]
    table = given if isinstance(given, np.ndarray) else given.toarray()
    found, at = [], 0
    for column in graph.encoding.used:
        own = table[:, at : at + len(column.attributes)]
        at += len(column.attributes)
        groups = _ranges(own, codes) if column.kind == NUMBER else _different(own)
        if (groups.max() + 1) * GROUP <= nodes.size:
            share = _share(groups, codes)
            if share >= SUSPICIOUS:
                found.append(LeakyColumn(column.name, share))
    return found


def _ranges(values: np.ndarray[Any, Any], codes: IntArray) -> IntArray:
    """The few ranges of a number that tell the classes apart best."""
    from sklearn.tree import DecisionTreeClassifier

    ranges = DecisionTreeClassifier(max_leaf_nodes=RANGES * len(np.unique(codes)), random_state=0)
    return _codes(ranges.fit(values, codes).apply(values))


def _different(rows: np.ndarray[Any, Any]) -> IntArray:
    return _codes(np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1))


def _codes(groups: np.ndarray[Any, Any]) -> IntArray:
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _share(groups: IntArray, codes: IntArray) -> float:
    """How many labels are right if each group answers with its commonest class."""
    table = np.zeros((groups.max() + 1, codes.max() + 1), np.int64)
    np.add.at(table, (groups, codes), 1)
    return float(table.max(axis=1).sum() / codes.size)
