"""What looks wrong with a graph before anything is learned from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xtcl.errors import first_few
from xtcl.graph.encoding import NUMBER
from xtcl.graph.graph import Graph
from xtcl.graph.pairs import generator
from xtcl.graph.validation import IntArray

_MANY_ISOLATED = 0.2
_MAX_CLASS_SHARE = 0.95
_FEW_LABELS = 20
_LONGEST_NAME = 80
_MIN_LABELS = 20
_LEAK_SHARE = 0.98
"""A column that gives this share of the labels correctly is reported."""
_MAX_LEAK_CLASS_SHARE = 0.9
"""Where one class is larger, any column gives as many labels correctly."""
_NODES_PER_GROUP = 5
"""Labelled nodes in a group of equal values, on average: smaller groups are pure by chance."""
_RANGES_PER_CLASS = 2
"""Ranges of a number for each class."""
_MAX_NODES_READ = 5000
"""Of more labelled nodes a sample of this size is read."""


def data_warnings(graph: Graph, task: str = "nodes") -> list[str]:
    """Sentences, each with a remedy; none where nothing looks wrong for the task.

    Labels, and columns that leak them, are checked for the task `nodes` only.
    """
    found = [*_of_structure(graph), *_of_cells(graph)]
    return [*found, *_of_labels(graph), *_of_columns(graph)] if task == "nodes" else found


def _of_structure(graph: Graph) -> list[str]:
    found = []
    nodes, isolated = graph.num_nodes, int((graph.degrees == 0).sum())
    if isolated > _MANY_ISOLATED * nodes:
        found.append(
            f"{isolated:,} of {nodes:,} nodes ({isolated / nodes:.0%}) have no link: for them only "
            "attributes speak. Are links missing?"
        )
    if not graph.has_attributes:
        found.append("There are no attributes: only links speak. Add columns that describe nodes.")
    return found


def _of_cells(graph: Graph) -> list[str]:
    columns = () if graph.encoding is None else graph.encoding.columns
    return [column.warning for column in columns if column.warning]


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
    if labelled < _FEW_LABELS:
        found.append(f"Only {labelled} nodes have a label: scores will say little. Label more.")
    if sizes.max() > _MAX_CLASS_SHARE * labelled:
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
        f"Column {_named(leak.column)} alone tells {leak.share:.1%} of the labels: is it "
        "known before the label is, or is it the label in disguise? If so, remove it."
        for leak in leaky_columns(graph)
    ]


def _named(name: object) -> str:
    return f"{name!r:.{_LONGEST_NAME}}"


@dataclass(frozen=True)
class LeakyColumn:
    """A column from which alone `share` of the known labels can be read."""

    column: str
    share: float


def leaky_columns(graph: Graph) -> list[LeakyColumn]:
    """Columns that give nearly all classes correctly, of a graph that came from tables."""
    if graph.encoding is None or graph.labels is None:
        return []
    nodes = np.flatnonzero(graph.labels >= 0)
    if nodes.size > _MAX_NODES_READ:
        nodes = np.sort(generator(0).choice(nodes, _MAX_NODES_READ, replace=False))
    codes = graph.labels[nodes]
    sizes = np.bincount(codes)
    enough = max(_MIN_LABELS, _RANGES_PER_CLASS * int(np.count_nonzero(sizes)) * _NODES_PER_GROUP)
    if nodes.size < enough or sizes.max() > _MAX_LEAK_CLASS_SHARE * nodes.size:
        return []
    given = graph.attributes[nodes]
    table = given if isinstance(given, np.ndarray) else given.toarray()
    found, at = [], 0
    for column in graph.encoding.used:
        own = table[:, at : at + len(column.attributes)]
        at += len(column.attributes)
        groups = _ranges(own, codes) if column.kind == NUMBER else _distinct_rows(own)
        if (groups.max() + 1) * _NODES_PER_GROUP <= nodes.size:
            share = _share(groups, codes)
            if share >= _LEAK_SHARE:
                found.append(LeakyColumn(column.name, share))
    return found


def _ranges(values: np.ndarray[Any, Any], codes: IntArray) -> IntArray:
    """The few ranges of a number that separate the classes best."""
    from sklearn.tree import DecisionTreeClassifier

    leaves = _RANGES_PER_CLASS * len(np.unique(codes))
    ranges = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
    return _codes(ranges.fit(values, codes).apply(values))


def _distinct_rows(rows: np.ndarray[Any, Any]) -> IntArray:
    return _codes(np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1))


def _codes(groups: np.ndarray[Any, Any]) -> IntArray:
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)


def _share(groups: IntArray, codes: IntArray) -> float:
    """The share of labels that are correct if each group takes its most frequent class."""
    table = np.zeros((groups.max() + 1, codes.max() + 1), np.int64)
    np.add.at(table, (groups, codes), 1)
    return float(table.max(axis=1).sum() / codes.size)
